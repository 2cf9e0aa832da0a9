package takeover

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kolkstreams/kolk/integration/chaos"
)

// Restarts is how much of its changelogs an instance has read when it started again, in records.
type Restarts struct {
	Rows    int64 // in the store
	Clean   int64 // after a stop in good order: must be 0
	Written int64 // offsets written since the last checkpoint, by the instance that was killed
	Killed  int64 // after kill -9: must be Written at most
	Idle    int64 // after kill -9 of an instance that had nothing to do for some checkpoint intervals: must be 0
}

// Wrong says what is not as it must be; nil if all is well.
func (r Restarts) Wrong() error {
	var faults []error
	if r.Clean != 0 {
		faults = append(faults, fmt.Errorf("%d changelog records were read after a clean stop, want 0", r.Clean))
	}
	if r.Killed > r.Written {
		faults = append(faults, fmt.Errorf("%d changelog records were read after kill -9, but only %d offsets were written since the last checkpoint", r.Killed, r.Written))
	}
	if r.Idle != 0 {
		faults = append(faults, fmt.Errorf("%d changelog records were read after kill -9 of an idle instance, want 0", r.Idle))
	}
	return errors.Join(faults...)
}

// String is the result in a line.
func (r Restarts) String() string {
	return fmt.Sprintf("%d rows; changelog records read: %d after a clean stop, %d after kill -9 (%d offsets since the last checkpoint), %d after kill -9 while idle", r.Rows, r.Clean, r.Killed, r.Written, r.Idle)
}

// touched is how many rows are changed before a kill.
const touched = 50_000

// Restart fills a store of a million rows, and starts its instance again after a clean stop and after kills.
func Restart(ctx context.Context, b *Bed) (r Restarts, err error) {
	if err := b.Make(ctx, "wide"); err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	p, err := b.start("one", nil)
	if err != nil {
		return r, err
	}
	if err := errors.Join(b.send(ctx, b.job.Slots()), b.drained(ctx), p.Quit()); err != nil {
		return r, err
	}

	// No checkpoint by time from here on: all that is written must be read again.
	never := func(s *chaos.Spec) { s.Checkpoint = time.Hour }
	p, r.Clean, r.Rows, err = b.again(never)
	if err != nil {
		return r, err
	}
	before, err := b.logEnd(ctx)
	if err != nil {
		return r, err
	}
	if err := errors.Join(b.send(ctx, touched), b.drained(ctx), p.Kill()); err != nil {
		return r, err
	}
	after, err := b.logEnd(ctx)
	if err != nil {
		return r, err
	}
	r.Written = after - before

	const often = 500 * time.Millisecond
	p, r.Killed, _, err = b.again(func(s *chaos.Spec) { s.Checkpoint = often })
	if err != nil {
		return r, err
	}
	if err := errors.Join(b.send(ctx, touched), b.drained(ctx)); err != nil {
		return r, err
	}
	if err := quiet(ctx, p, 10*often); err != nil {
		return r, err
	}
	if err := p.Kill(); err != nil {
		return r, err
	}
	p, r.Idle, _, err = b.again(nil)
	if err != nil {
		return r, err
	}
	return r, p.Quit()
}

// again starts the instance once more and says what it has read.
func (b *Bed) again(change func(*chaos.Spec)) (p *chaos.Process, restored, rows int64, err error) {
	if p, err = b.start("one", change); err != nil {
		return nil, 0, 0, err
	}
	e, err := ready(p)
	for _, n := range e.Restored {
		restored += n
	}
	for _, n := range e.Entries {
		rows += n
	}
	return p, restored, rows, err
}

// quiet returns when an instance has told nothing for a while.
func quiet(ctx context.Context, p *chaos.Process, d time.Duration) error {
	for told := -1; told != len(p.Events()); {
		told = len(p.Events())
		select {
		case <-time.After(d):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
