package kolk

import (
	"context"
	"sync"
	"time"

	"github.com/kolkstreams/kolk/changelog"
)

// purgeEvery is how often records of repartition topics that were processed are deleted from the broker. Their retention is without end, so
// that nothing is lost when an application stands still; what was committed is of no more use.
const purgeEvery = 30 * time.Second

// purger collects how far repartition topics are committed, and deletes up to there.
type purger struct {
	mu   sync.Mutex
	upTo map[string]map[int32]int64 // by topic and partition, what is committed
	done map[string]map[int32]int64 // what was deleted
}

func newPurger() *purger {
	return &purger{upTo: make(map[string]map[int32]int64), done: make(map[string]map[int32]int64)}
}

func set(m map[string]map[int32]int64, topic string, partition int32, offset int64) {
	if m[topic] == nil {
		m[topic] = make(map[int32]int64)
	}
	m[topic][partition] = offset
}

// committed notes a committed offset.
func (p *purger) committed(topic string, partition int32, offset int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	set(p.upTo, topic, partition, offset)
}

// due takes what has moved since it was last deleted up to.
func (p *purger) due() map[string]map[int32]int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	due := make(map[string]map[int32]int64)
	for topic, parts := range p.upTo {
		for partition, offset := range parts {
			if offset > p.done[topic][partition] {
				set(due, topic, partition, offset)
			}
		}
	}
	p.upTo = make(map[string]map[int32]int64)
	return due
}

// purged notes what was deleted.
func (p *purger) purged(parts map[string]map[int32]int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for topic, of := range parts {
		for partition, offset := range of {
			set(p.done, topic, partition, offset)
		}
	}
}

// purge runs until the instance ends. What cannot be deleted now is tried again when more was committed: it costs disk, nothing else.
func (in *instance) purge() {
	tick := time.NewTicker(purgeEvery)
	defer tick.Stop()
	for {
		select {
		case <-in.ctx.Done():
			return
		case <-tick.C:
		}
		due := in.purger.due()
		if len(due) == 0 {
			continue
		}
		ctx, cancel := context.WithTimeout(in.ctx, purgeEvery)
		err := changelog.Purge(ctx, in.adm, due)
		cancel()
		if err != nil {
			in.log.Info("processed records of repartition topics were not deleted", "error", err)
			continue
		}
		in.purger.purged(due)
	}
}
