package exactlyonce

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
)

func TestLoadedWaitsForFreshTopics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l loaded
		for _, topic := range []string{"a", "a", "b", "a", "b"} {
			l.note(topic)
		}
		if !slices.Equal(l.fresh, []string{"a", "b"}) {
			t.Fatalf("fresh %v", l.fresh)
		}
		asked := map[string]int{}
		known := func(topic string) int32 {
			if asked[topic]++; asked[topic] < 3 {
				return -1
			}
			return 0
		}
		begun := time.Now()
		l.settle(known)
		if asked["a"] != 3 || asked["b"] != 3 || time.Since(begun) != 4*loadPause {
			t.Fatalf("asked %v, waited %v", asked, time.Since(begun))
		}
		l.note("a")
		l.note("c")
		if !slices.Equal(l.fresh, []string{"c"}) {
			t.Fatalf("fresh %v", l.fresh)
		}
		begun = time.Now()
		l.settle(func(string) int32 { return -1 })
		if took := time.Since(begun); took != loadLimit || len(l.fresh) != 0 {
			t.Fatalf("waited %v, fresh %v", took, l.fresh)
		}
	})
}

// Guards against a transaction lost at the start: 3 of 400 clients had the first record of their second transaction refused as
// out of order, because the client reset its sequence numbers before it had stored a topic it was already writing to.
func TestSecondTransactionOfANewTopic(t *testing.T) {
	for range 60 {
		synctest.Test(t, func(t *testing.T) {
			b := newBenchOn(t, new(kfake.VirtualNetwork))
			c := newCounter(0)
			c.d = b.open(b.config(), c)
			for range 2 {
				c.take(t.Context(), "a")
				want(t, c.d.Commit(t.Context()), Committed)
			}
			c.d.Close()
		})
	}
}
