package kolk

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/twmb/franz-go/pkg/kadm"
)

// See Config.CloseIdle. What a worker has fetched says nothing about what it could not fetch: so before stream time goes on without a record, the
// brokers are asked where the inputs end. Stream time goes on to the moment at which the first question was asked, as of which the answers prove that
// nothing was left.

// askEvery is how long the worker waits at least before it asks again.
const askEvery = time.Second

// uptime is a clock that nobody puts forward or back, ms.
func (w *worker) uptime() int64 { return time.Since(w.born).Milliseconds() }

// untilIdle is wait, or less if a task's stream time is to go on before.
func (w *worker) untilIdle(wait time.Duration) time.Duration {
	if w.in.c.CloseIdle == 0 || w.asking {
		return wait
	}
	now := w.uptime()
	for _, t := range w.tasks {
		due, err := t.IdleDue(now)
		if err != nil {
			w.failed(t, err)
			return 0
		}
		if due-now < wait.Milliseconds() {
			wait = max(0, time.Duration(due-now)*time.Millisecond, time.Until(w.askFrom))
		}
	}
	return wait
}

// askIdle finds out whether tasks whose stream time is due to go on are at the ends of their inputs. The answer is waited for in the background.
func (w *worker) askIdle() {
	if w.in.c.CloseIdle == 0 || w.asking || w.refused || time.Now().Before(w.askFrom) {
		return
	}
	now := w.uptime()
	var idle []*task
	for _, t := range w.tasks {
		due, err := t.IdleDue(now)
		if err != nil {
			w.failed(t, err)
			return
		}
		if due <= now {
			idle = append(idle, t)
		}
	}
	if len(idle) == 0 {
		return
	}
	w.asking, w.askFrom = true, time.Now().Add(min(w.in.c.CloseIdle, askEvery))
	w.in.mu.Lock()
	defer w.in.mu.Unlock()
	if w.in.ending {
		return
	}
	w.in.openers.Go(func() {
		ends, err := w.in.inputEnds(w.in.ctx, idle)
		w.post(func() {
			w.asking = false
			if err != nil {
				w.in.log.Debug("idle tasks wait", "worker", w.index, "error", err)
				return
			}
			w.closeIdle(idle, ends, now)
		})
	})
}

// closeIdle lets the stream time of tasks go on, as of when the question was asked.
func (w *worker) closeIdle(idle []*task, ends map[*task][]int64, asked int64) {
	for _, t := range idle {
		end, known := ends[t]
		if w.refused || !known || !slices.Contains(w.tasks, t) {
			continue
		}
		for n, i := range t.parts {
			t.AtEnd(i, end[n])
		}
		did, err := t.CloseIdle(asked)
		if err != nil {
			w.failed(t, err)
			return
		}
		if did {
			t.closedIdle, w.news = time.Now(), true
			w.in.log.Debug("stream time goes on without records", "task", t.id(), "stream_time", t.StreamTime())
		}
	}
}

// inputEnds is where the inputs of tasks end, in the order of their parts. A task that has something under way to it is left out.
func (in *instance) inputEnds(ctx context.Context, tasks []*task) (map[*task][]int64, error) {
	a := &arrivals{in: in, seen: make(map[*engine.Sub]bool), arrived: make(map[*engine.Sub]bool)}
	out := make(map[*task][]int64, len(tasks))
	bySub := make(map[*engine.Sub]topicEnds)
	for _, t := range tasks {
		ends, ok := bySub[t.sub]
		if !ok {
			all, err := a.upstream(ctx, t.sub)
			if err == nil && all {
				ends, err = in.ends(ctx, t.sub)
			}
			if err != nil {
				return nil, err
			}
			bySub[t.sub] = ends
		}
		if ends == nil {
			continue
		}
		for _, i := range t.parts {
			out[t] = append(out[t], ends[t.input(i)][t.key.Partition])
		}
	}
	return out, nil
}

// topicEnds are offsets by topic and partition.
type topicEnds map[string]map[int32]int64

// ends is where the inputs of a sub-topology end: the user's at their last stable offsets. An internal topic ends at its high watermark, as
// transactions of our own are soon over, and their offsets may be there before their markers.
func (in *instance) ends(ctx context.Context, s *engine.Sub) (topicEnds, error) {
	var users, internal []string
	for _, i := range s.Inputs {
		if i.Repartition {
			internal = append(internal, i.Full(in.c.Application))
		} else {
			users = append(users, i.Full(in.c.Application))
		}
	}
	out := make(topicEnds)
	take := func(topics []string, list func(context.Context, ...string) (kadm.ListedOffsets, error)) error {
		if len(topics) == 0 {
			return nil
		}
		listed, err := list(ctx, topics...)
		if err == nil {
			err = listed.Error()
		}
		if err != nil {
			return fmt.Errorf("ends of the inputs: %w", err)
		}
		listed.Each(func(o kadm.ListedOffset) {
			if out[o.Topic] == nil {
				out[o.Topic] = make(map[int32]int64)
			}
			out[o.Topic][o.Partition] = o.Offset
		})
		return nil
	}
	if err := take(users, in.adm.ListCommittedOffsets); err != nil {
		return nil, err
	}
	return out, take(internal, in.adm.ListEndOffsets)
}

// arrivals finds out whether everything that was in the application's inputs when the question was asked has come through.
type arrivals struct {
	in      *instance
	seen    map[*engine.Sub]bool // asked, or being asked: a circle of topics is gone through once
	arrived map[*engine.Sub]bool
}

// upstream says whether what was in the inputs of all sub-topologies before this one has reached its inputs. It looks from the sources on: first where a topic
// ends, then whether its readers have committed up to there, and only then at the topics that they write.
func (a *arrivals) upstream(ctx context.Context, s *engine.Sub) (bool, error) {
	for _, writer := range a.in.writers(s) {
		if !a.seen[writer] {
			a.seen[writer] = true
			ok, err := a.upstream(ctx, writer)
			if err == nil && ok {
				ok, err = a.in.readUp(ctx, writer)
			}
			if err != nil {
				return false, err
			}
			a.arrived[writer] = ok
		} else if _, done := a.arrived[writer]; !done {
			continue // it is further up in the circle
		}
		if !a.arrived[writer] {
			return false, nil
		}
	}
	return true, nil
}

// writers are the sub-topologies that write what s reads.
func (in *instance) writers(s *engine.Sub) (out []*engine.Sub) {
	for _, w := range in.graph.Subs {
		for _, o := range w.Outputs {
			if o.Repartition && slices.ContainsFunc(s.Inputs, func(i *engine.Input) bool { return i.Topic == o.Topic }) && !slices.Contains(out, w) {
				out = append(out, w)
			}
		}
	}
	return out
}

// readUp says whether all tasks of a sub-topology have committed what is in their inputs. It gives them a commit interval for that.
func (in *instance) readUp(ctx context.Context, s *engine.Sub) (bool, error) {
	ends, err := in.ends(ctx, s)
	if err != nil {
		return false, err
	}
	for until := time.Now().Add(in.c.CommitEvery + askEvery); ; {
		got, err := in.adm.FetchOffsets(ctx, in.c.Application)
		if err != nil {
			return false, fmt.Errorf("committed offsets: %w", err)
		}
		behind, err := in.anyBehind(ctx, ends, got)
		if err != nil {
			return false, err
		}
		if !behind || time.Now().After(until) {
			return !behind, nil
		}
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-time.After(in.c.CommitEvery/2 + 10*time.Millisecond):
		}
	}
}

// anyBehind says whether a partition has records past its committed offset.
func (in *instance) anyBehind(ctx context.Context, ends topicEnds, committed kadm.OffsetResponses) (bool, error) {
	for topic, parts := range ends {
		var starts kadm.ListedOffsets
		for p, end := range parts {
			c, ok := committed.Lookup(topic, p)
			switch {
			case ok && c.Err != nil:
				return false, fmt.Errorf("committed offset of %s/%d: %w", topic, p, c.Err)
			case ok && c.At >= 0:
				if c.At < end {
					return true, nil
				}
			case end > 0: // nobody has read it yet, or there is nothing left to read
				if starts == nil {
					var err error
					if starts, err = in.adm.ListStartOffsets(ctx, topic); err != nil {
						return false, fmt.Errorf("beginnings of %s: %w", topic, err)
					}
				}
				if s, ok := starts.Lookup(topic, p); !ok || s.Err != nil || s.Offset < end {
					return true, nil
				}
			}
		}
	}
	return false, nil
}
