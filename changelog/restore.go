package changelog

import (
	"context"
	"fmt"
	"time"
)

// Restore hands the committed records of a partition to apply, in their order, until the position reaches p.End. It returns the position: exactly the offset up to
// which everything was applied, also together with an error, so a store can be checkpointed there. The records are valid until apply returns, except for
// what their own comment says about bytes. apply is called from this goroutine, never with none.
//
// The next fetch is under way while apply works. A restore that ends early, by ctx or by an error, disturbs no other. progress may be nil.
//
// The errors to act on are ErrTruncated, ErrDiverged, ErrRecreated and ErrStalled; an error of apply is wrapped. Each names topic, partition, position and end.
func (r *Reader) Restore(ctx context.Context, p Part, apply func([]Record) error, progress *Progress) (next int64, err error) {
	if progress == nil {
		progress = &Progress{}
	}
	progress.begin(p)
	r.active.Add(1)
	defer r.active.Add(-1)
	s := &restore{r: r, part: p, source: source{part: p}, progress: progress, position: p.From, since: time.Now(), quit: make(chan struct{})}
	defer close(s.quit)
	if err := s.run(ctx, apply); err != nil {
		return s.position, fmt.Errorf("restoring %s from %d, at %d of %d: %w", p, p.From, s.position, p.End, err)
	}
	progress.done()
	return s.position, nil
}

// restore is one running call of Restore.
type restore struct {
	r        *Reader
	part     Part
	source   source
	progress *Progress
	position int64
	since    time.Time     // when the position last moved, apply returned, or memory was had
	trouble  error         // the last failure since then
	stall    *time.Timer   // looks at since
	quit     chan struct{} // closed when the restore is over; a fetch still in flight then gives its memory back
	batch    []Record
}

func (s *restore) run(ctx context.Context, apply func([]Record) error) error {
	s.stall = time.NewTimer(s.r.config.StallAfter)
	defer s.stall.Stop()
	if err := s.open(ctx); err != nil {
		return err
	}
	var pending chan fetched
	for failures := 0; s.position < s.part.End; {
		if pending == nil {
			if err := s.acquire(ctx); err != nil {
				return err
			}
			pending = s.start(s.position)
		}
		got, err := s.await(ctx, pending, nil)
		if err != nil {
			return err
		}
		pending = nil
		if got.err != nil {
			s.trouble = got.err
		}
		if got.next == s.position {
			s.release()
			if got.final {
				return got.err
			}
			failures++
			if err := s.pause(ctx, failures, got.err != nil); err != nil {
				return err
			}
			continue
		}
		failures = 0
		if got.err == nil && got.next < s.part.End && s.tryAcquire() {
			pending = s.start(got.next)
		}
		err = s.take(got, apply)
		s.release()
		if err != nil {
			return err
		}
	}
	return nil
}

// open settles where the restore begins, and that the topic is still the one of the checkpoint.
func (s *restore) open(ctx context.Context) error {
	if s.part.ID != ([16]byte{}) && s.part.From >= s.part.End { // else the first fetch compares
		if err := s.compareID(ctx); err != nil {
			return err
		}
	}
	if s.part.From < 0 {
		start, err := s.r.offset(ctx, s.part.Topic, s.part.Partition, earliest)
		if err != nil {
			return fmt.Errorf("looking up the start of the log: %w", err)
		}
		s.position = start
		s.progress.startsAt(start)
		return nil // the start may be past the end, if all up to it was deleted meanwhile
	}
	if s.part.From > s.part.End {
		return ErrDiverged
	}
	return nil
}

// compareID checks the topic's id where no fetch will.
func (s *restore) compareID(ctx context.Context) error {
	for failures := 1; ; failures++ {
		id, err := s.r.TopicID(ctx, s.part.Topic)
		switch {
		case err == nil && id != s.part.ID:
			return fmt.Errorf("%w: its id was %x and is %x", ErrRecreated, s.part.ID, id)
		case err == nil:
			return nil
		case final(err):
			return err
		}
		s.trouble = err
		if err := s.pause(ctx, failures, true); err != nil {
			return err
		}
	}
}

// take applies what a fetch brought and moves the position.
func (s *restore) take(got fetched, apply func([]Record) error) error {
	s.batch = s.batch[:0]
	var bytes int64
	for _, rec := range got.records {
		if rec.Offset >= s.part.End {
			break
		}
		if rec.Attrs.IsControl() {
			continue
		}
		bytes += int64(len(rec.Key) + len(rec.Value))
		s.batch = append(s.batch, Record{Key: rec.Key, Value: rec.Value, Timestamp: rec.Timestamp.UnixMilli(), Offset: rec.Offset, Headers: rec.Headers})
	}
	if len(s.batch) > 0 {
		if err := apply(s.batch); err != nil {
			return fmt.Errorf("applying offsets %d to %d: %w", s.batch[0].Offset, s.batch[len(s.batch)-1].Offset, err)
		}
	}
	s.position = min(got.next, s.part.End)
	s.since = time.Now()
	s.trouble = got.err
	s.progress.moved(s.position, len(s.batch), bytes)
	clear(s.batch) // the batch's memory is not to outlive it
	return nil
}

// start fetches in the background. The fetch holds the slot that the caller has acquired, until the answer is taken. It lives as long as the Reader and not as long as this
// restore: a request that is given up may close the connection that all share.
func (s *restore) start(offset int64) chan fetched {
	ch := make(chan fetched)
	size := s.r.fetchSize()
	run := func() {
		got := s.r.fetch(&s.source, offset, size)
		select {
		case ch <- got:
		case <-s.quit:
			s.release()
		}
	}
	s.r.spawn(run)
	return ch
}

// spawn runs f, which Close waits for. After Close it does not: await sees that the Reader is closed.
func (r *Reader) spawn(f func()) {
	r.gate.Lock()
	defer r.gate.Unlock()
	if r.ctx.Err() == nil {
		r.wg.Go(f)
	}
}

// fetchSize shares the memory bound: two fetches for each restore that runs, one applied and one under way.
func (r *Reader) fetchSize() int32 {
	share := int64(r.config.FetchBytes) / max(1, 2*r.active.Load())
	return int32(min(max(share, fetchUnit), largestFetch))
}

// acquire takes a slot, waiting for one if it must. That is other restores' work and not a stall of this one.
func (s *restore) acquire(ctx context.Context) error {
	if s.tryAcquire() {
		return nil
	}
	before := time.Now()
	select {
	case s.r.slots <- struct{}{}:
		s.since = s.since.Add(time.Since(before))
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.r.ctx.Done():
		return ErrClosed
	}
}

func (s *restore) tryAcquire() bool {
	select {
	case s.r.slots <- struct{}{}:
		return true
	default:
		return false
	}
}

func (s *restore) release() { <-s.r.slots }

// await waits for a fetch or for a pause, and minds the clock meanwhile.
func (s *restore) await(ctx context.Context, pending chan fetched, pause <-chan time.Time) (fetched, error) {
	for {
		select {
		case got := <-pending:
			return got, nil
		case <-pause:
			return fetched{}, nil
		case <-ctx.Done():
			return fetched{}, context.Cause(ctx)
		case <-s.r.ctx.Done():
			return fetched{}, ErrClosed
		case <-s.stall.C:
			wait, err := s.stalling(ctx)
			if err != nil {
				return fetched{}, err
			}
			s.stall.Reset(wait)
		}
	}
}

// stalling is called by the clock. It tells whether this is a stall, and when to look again.
func (s *restore) stalling(ctx context.Context) (time.Duration, error) {
	c := s.r.config
	idle := time.Since(s.since)
	if idle >= c.Timeout {
		if s.trouble != nil {
			return 0, fmt.Errorf("%w for %s: %w", ErrStalled, c.Timeout, s.trouble)
		}
		return 0, fmt.Errorf("%w for %s: the broker has nothing beyond this position, probably because a transaction is open there", ErrStalled, c.Timeout)
	}
	if idle < c.StallAfter {
		return c.StallAfter - idle, nil
	}
	s.progress.stalled(s.since)
	if c.Stalled != nil {
		c.Stalled(ctx, s.part.Topic, s.part.Partition, s.position, s.part.End)
	}
	return min(c.StallAfter, max(c.Timeout-time.Since(s.since), time.Millisecond)), nil
}

// pause is between two fetches that brought nothing. An open transaction is looked at often, a failing broker is left alone for longer.
func (s *restore) pause(ctx context.Context, failures int, failed bool) error {
	wait := min(10*time.Millisecond<<min(failures-1, 10), 100*time.Millisecond)
	if failed {
		wait = retryAfter(failures - 1)
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	_, err := s.await(ctx, nil, timer.C)
	return err
}
