package chaos

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// lag is how many offsets the application has not committed yet, of topics that may still be missing.
func lag(ctx context.Context, adm *kadm.Client, application string, topics []string) (int64, error) {
	// Ends first: what is produced behind the application's back then only adds to the lag. What the open transaction of a killed instance hides is
	// still to come.
	ends, err := adm.ListEndOffsets(ctx, topics...)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return 0, fmt.Errorf("ends of %v: %w", topics, err)
	}
	committed, err := adm.FetchOffsets(ctx, application)
	if err != nil {
		return 0, fmt.Errorf("offsets of %s: %w", application, err)
	}
	var sum int64
	ends.Each(func(o kadm.ListedOffset) {
		at := int64(0)
		if c, ok := committed.Lookup(o.Topic, o.Partition); ok {
			at = max(0, c.At)
		}
		sum += max(0, o.Offset-at)
	})
	return sum, nil
}

// Drained returns when the application has committed all there is in its topics. It gives up when nothing has moved for the given time, or when look
// returns an error.
func Drained(ctx context.Context, adm *kadm.Client, application string, topics []string, patience time.Duration, look func() error) error {
	last, since := int64(-1), time.Now()
	for quiet := 0; ; {
		n, err := lag(ctx, adm, application, topics)
		if err == nil && n == 0 {
			// Twice, as a first part of the job can be done with its input before its output is seen.
			if quiet++; quiet == 2 {
				return nil
			}
		} else {
			quiet = 0
		}
		if err == nil && n != last {
			last, since = n, time.Now()
		}
		if err := look(); err != nil {
			return err
		}
		if time.Since(since) > patience {
			return fmt.Errorf("%s stands still with %d offsets to go, for %v (last answer: %v)", application, last, patience, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s has %d offsets to go: %w", application, last, ctx.Err())
		case <-time.After(100 * time.Millisecond):
		}
	}
}
