package kolk

import (
	"context"
	"sync"
	"time"

	"github.com/kolkstreams/kolk/changelog"
	"github.com/twmb/franz-go/pkg/kadm"
)

// purgeEvery is how often records of repartition topics that were processed are deleted from the broker. Their retention is without end, so
// that nothing is lost when an application stands still; what was committed is of no more use. The same goes for what has expired on changelogs.
const purgeEvery = 30 * time.Second

// purger collects up to which offsets topics are needed no more.
type purger struct {
	mu   sync.Mutex
	upTo map[string]map[int32]int64 // by topic and partition
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

// committed notes that what comes before a committed offset is needed no more.
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
		in.delete(in.purger, "processed records of repartition topics", changelog.Purge)
		in.delete(in.expired, "expired records of changelogs", changelog.Expire)
		for _, old := range in.retainer.idle(time.Now()) {
			in.protectIdle(old)
		}
	}
}

// delete deletes what a purger has collected.
func (in *instance) delete(p *purger, what string, f func(context.Context, *kadm.Client, map[string]map[int32]int64) error) {
	due := p.due()
	if len(due) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(in.ctx, purgeEvery)
	defer cancel()
	if err := f(ctx, in.adm, due); err != nil {
		in.log.Info(what+" were not deleted", "error", err)
		return
	}
	p.purged(due)
}
