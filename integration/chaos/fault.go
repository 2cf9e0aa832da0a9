package chaos

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Kind is a kind of fault.
type Kind string

// The kinds of faults.
const (
	Kill        Kind = "kill"         // kill -9; started again a little later
	KillBlank   Kind = "kill-blank"   // the same, and its disk is lost
	KillRestore Kind = "kill-restore" // killed, and killed again while it starts
	KillStatic  Kind = "kill-static"  // the static member is killed and started at once
	Restart     Kind = "restart"      // stopped in good order and started again
	Add         Kind = "add"          // one instance more
	Remove      Kind = "remove"       // one instance less
	Zombie      Kind = "zombie"       // frozen for longer than the session timeout
	Pause       Kind = "pause"        // frozen for less
	BrokerKill  Kind = "broker-kill"  // a broker is killed and started again
	BrokerStop  Kind = "broker-stop"  // a broker is stopped in good order and started again
)

var kinds = []Kind{Kill, Kill, Kill, KillBlank, KillRestore, KillStatic, Restart, Add, Remove, Zombie, Zombie, Pause, BrokerKill, BrokerStop}

// Kinds are the faults that so many brokers bear. One that is alone must not be stopped in good order: Kafka 4.3.1, while it goes, notes transactions as complete whose marker
// it has not written to __consumer_offsets. The offsets are held by them for ever after, and no fence ends what has no open transaction.
func Kinds(nodes int) []Kind {
	return slices.DeleteFunc(slices.Clone(kinds), func(k Kind) bool {
		return (k == BrokerKill && nodes == 0) || (k == BrokerStop && nodes < 3)
	})
}

// CalmKinds are the faults that the in-process broker bears. It has no session timeout for a member that has joined and not been told of its tasks yet, and one for members
// that wait for those; on a real broker it is the other way round. So a member that dies while it joins holds the group up for a minute, and a wait of
// more than the session timeout evicts those that wait, without an answer.
var CalmKinds = []Kind{Kill, KillBlank, Zombie, Restart, Add, Remove, Pause}

// ParseKinds reads kinds that are separated by commas.
func ParseKinds(s string) (out []Kind, err error) {
	for _, name := range strings.Split(s, ",") {
		if !slices.Contains(kinds, Kind(name)) {
			return nil, fmt.Errorf("there is no fault %q; use some of %v", name, slices.Compact(slices.Clone(kinds)))
		}
		out = append(out, Kind(name))
	}
	return out, nil
}

// deal draws kinds as from a shuffled deck, so that few faults are different ones.
type deal struct {
	random *rand.Rand
	kinds  []Kind
	deck   []Kind
}

func (d *deal) draw() Kind {
	if len(d.deck) == 0 {
		d.deck = slices.Clone(d.kinds)
		d.random.Shuffle(len(d.deck), func(i, j int) { d.deck[i], d.deck[j] = d.deck[j], d.deck[i] })
	}
	k := d.deck[0]
	d.deck = d.deck[1:]
	return k
}

// most is how many instances there are at most.
const most = 5

// between is a random duration.
func (r *run) between(low, high time.Duration) time.Duration {
	return low + time.Duration(r.random.Int64N(int64(high-low)))
}

// harm does all faults.
func (r *run) harm() error {
	d := &deal{random: r.random, kinds: r.Kinds}
	for n := 1; n <= r.Faults; {
		k := d.draw()
		what, err := r.do(k)
		if err != nil {
			return fmt.Errorf("fault %d, %s: %w", n, k, err)
		}
		if what != "" {
			r.say("fault %d of %d: %s: %s", n, r.Faults, k, what)
			n++
		}
		if err := r.pause(what == ""); err != nil {
			return err
		}
	}
	r.fleet.later.Wait()
	return r.fleet.unasked()
}

// pause is what lies between two faults: a moment, so that they meet, or until all tasks run again, and then a while.
func (r *run) pause(short bool) error {
	if !r.Calm && (short || r.random.IntN(3) == 0) {
		time.Sleep(r.between(50*time.Millisecond, time.Second))
		return errors.Join(r.fleet.unasked(), r.ctx.Err())
	}
	if r.Calm {
		r.fleet.later.Wait()
	}
	err := r.fleet.settled(4 * r.Session)
	if errors.Is(err, errUnsettled) {
		r.say("%v; going on", err)
		err = nil
	}
	time.Sleep(r.between(0, 2*time.Second))
	return err
}

// pick is a random free member that is, or is not, static; nil if there is none.
func (r *run) pick(static bool) *member {
	free := slices.DeleteFunc(r.fleet.free(), func(m *member) bool { return (m.name == staticName) != static })
	if len(free) == 0 {
		return nil
	}
	return free[r.random.IntN(len(free))]
}

// do does one fault and says what it was; nothing if there was nobody to do it to.
func (r *run) do(k Kind) (string, error) {
	switch k {
	case Add:
		if len(r.fleet.all) >= most {
			return "", nil
		}
		m, err := r.fleet.add("")
		if err != nil {
			return "", err
		}
		return m.name, nil
	case BrokerKill, BrokerStop:
		return r.broker(k)
	}
	m := r.pick(k == KillStatic || (k == Zombie && r.random.IntN(4) == 0))
	if m == nil {
		return "", nil
	}
	tasks := len(m.Running())
	what, err := r.member(k, m)
	if what != "" {
		what = fmt.Sprintf("%s (%d tasks) %s", m.name, tasks, what)
	}
	return what, err
}

func (r *run) member(k Kind, m *member) (string, error) {
	f := r.fleet
	switch k {
	case Kill, KillBlank:
		wait := r.between(0, 3*time.Second)
		if err := m.Kill(); err != nil {
			return "", err
		}
		f.after(m, wait, func() error { return f.restart(m, k == KillBlank) })
		return fmt.Sprintf("starts again in %v", wait.Round(time.Millisecond)), nil
	case KillRestore:
		wait := r.between(50*time.Millisecond, 1500*time.Millisecond)
		blank := r.random.IntN(2) == 0
		if err := errors.Join(m.Kill(), f.restart(m, blank)); err != nil {
			return "", err
		}
		f.after(m, wait, func() error { return errors.Join(m.Kill(), f.restart(m, false)) })
		return fmt.Sprintf("starts again, without its disk: %v, and is killed again in %v", blank, wait.Round(time.Millisecond)), nil
	case KillStatic:
		return "starts again at once", errors.Join(m.Kill(), f.restart(m, false))
	case Restart:
		return "starts again at once", errors.Join(m.Quit(), f.restart(m, false))
	case Remove:
		if len(f.free()) < processes {
			return "", nil
		}
		f.remove(m)
		return "is gone", m.Quit()
	case Zombie, Pause:
		wait := r.between(r.Session/4, r.Session*3/4)
		if k == Zombie {
			wait = r.between(r.Session+time.Second, r.Session+5*time.Second)
		}
		if err := m.Signal(syscall.SIGSTOP); err != nil {
			return "", err
		}
		f.after(m, wait, func() error { return m.Signal(syscall.SIGCONT) })
		return fmt.Sprintf("for %v", wait.Round(time.Millisecond)), nil
	}
	return "", fmt.Errorf("fault %q cannot be done to an instance", k)
}

// broker does a fault to a broker and waits until it runs again: of three, two must.
func (r *run) broker(k Kind) (string, error) {
	if len(r.Nodes) == 0 {
		return "", errors.New("these brokers are not ours to harm")
	}
	n := r.Nodes[r.random.IntN(len(r.Nodes))]
	down := r.between(0, 2*time.Second)
	end := n.Stop
	if k == BrokerKill {
		end = n.Kill
	}
	began := time.Now()
	if err := end(); err != nil {
		return "", err
	}
	time.Sleep(down)
	if err := n.Start(r.ctx); err != nil {
		return "", err
	}
	return fmt.Sprintf("node %d was gone for %.1f s", n.ID, time.Since(began).Seconds()), nil
}
