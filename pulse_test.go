package kolk

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestPulse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		resumed := 0
		p := &pulse{session: 6 * time.Second, resumed: func() { resumed++ }}
		holds := func(want bool, when string) {
			t.Helper()
			if p.holds() != want {
				t.Errorf("%s: membership holds: %v", when, !want)
			}
		}
		beat := func(took time.Duration) {
			p.OnBrokerE2E(kgo.BrokerMetadata{}, int16(kmsg.Heartbeat), kgo.BrokerE2E{ReadWait: took})
		}
		wait := func(d time.Duration) { <-time.After(d) }

		p.renew()
		wait(4 * time.Second)
		beat(0)
		wait(4 * time.Second)
		holds(true, "4 s after a heartbeat")
		wait(3 * time.Second)
		holds(false, "7 s after a heartbeat")
		beat(0)
		holds(false, "the first heartbeat after a gap")
		wait(2 * time.Second)
		beat(0)
		holds(true, "the second one")
		if resumed != 1 {
			t.Errorf("resumed %d times", resumed)
		}

		// What counts is when it was sent, not when the answer was read.
		wait(5 * time.Second)
		beat(5 * time.Second)
		wait(2 * time.Second)
		holds(false, "7 s after the last heartbeat was sent")
		beat(2 * time.Second)
		holds(true, "a heartbeat that was sent in time, and read late")
		if resumed != 2 {
			t.Errorf("resumed %d times", resumed)
		}

		// The broker evicts nobody who waits for a rebalance.
		p.OnBrokerWrite(kgo.BrokerMetadata{}, int16(kmsg.JoinGroup), 1, 0, 0, nil)
		wait(30 * time.Second)
		holds(true, "waiting for the group")
		p.OnBrokerE2E(kgo.BrokerMetadata{}, int16(kmsg.JoinGroup), kgo.BrokerE2E{})
		wait(7 * time.Second)
		holds(false, "7 s after it has answered")
		p.OnBrokerWrite(kgo.BrokerMetadata{}, int16(kmsg.JoinGroup), 1, 0, 0, nil)
		holds(false, "joining anew after a gap")
		p.OnBrokerE2E(kgo.BrokerMetadata{}, int16(kmsg.JoinGroup), kgo.BrokerE2E{})
		p.renew()
		holds(true, "assigned")
	})
}

// An instance whose heartbeats are not answered has been evicted, as far as it can know. Under at-least-once nobody would refuse its changelog records,
// which would bury those of the new owner.
func TestSilentGroup(t *testing.T) {
	inWorld(t, map[string]int32{"words": 1, "totals": 1}, func(w *world) {
		c := w.config("app")
		c.Guarantee, c.CommitEvery, c.SessionTimeout = AtLeastOnce, time.Second, 6*time.Second
		w.start(counting(), c).ready()
		w.send("words", "a=", "a=")
		w.settled("app", "words")

		heard := make(chan struct{})
		w.fake.ControlKey(int16(kmsg.Heartbeat), func(kmsg.Request) (kmsg.Response, error, bool) {
			w.fake.KeepControl()
			w.fake.SleepControl(func() { <-heard })
			return nil, nil, false
		})
		w.wait(9 * time.Second)
		before := len(w.read("app-counts-changelog"))
		w.send("words", "a=")
		w.wait(1500 * time.Millisecond) // soon after, the client gives up waiting and joins anew
		if n := len(w.read("app-counts-changelog")); n != before {
			t.Errorf("%d records were written to the changelog by an instance that the group has given up", n-before)
		}
		close(heard)
		w.settled("app", "words")
		w.same("counts", w.counts("app-counts-changelog"), map[string]int64{"a": 3})
	})
}
