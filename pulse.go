package kolk

import (
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// pulse says whether the group can still count this process as a member. One that was frozen for longer than the session timeout, or cut off, goes on where it
// was, and learns of its eviction from the next heartbeat at the earliest. What it commits before that is refused by the broker, but under at-least-once its
// changelog records are written by then, over those of the new owner. So the age of the last heartbeat is looked at first.
//
// A heartbeat that is answered after such a gap proves nothing: its answer may be the eviction. The one after it does, since the client sends none once it is
// evicted. A freeze between this look and the broker's acknowledgement is not noticed; only transactions have an answer to that.
type pulse struct {
	session time.Duration
	resumed func() // called when a membership that was in doubt has proved to hold

	mu      sync.Mutex
	beat    time.Time // when the last heartbeat was sent that was answered
	waiting int       // requests to join that the broker holds; it evicts no member that waits
	doubt   bool      // the gap before the last request was too long
	denied  bool      // somebody was told that the membership is in doubt
}

// holds says whether the membership can be relied on.
func (p *pulse) holds() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	ok := !p.doubt && (p.waiting > 0 || time.Since(p.beat) < p.session)
	if !ok {
		p.denied = true
	}
	return ok
}

// renew is called when the group has assigned.
func (p *pulse) renew() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.beat, p.doubt, p.denied = time.Now(), false, false
}

// OnBrokerWrite implements kgo.HookBrokerWrite.
func (p *pulse) OnBrokerWrite(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, err error) {
	if err == nil && joins(key) {
		p.mu.Lock()
		p.waiting++
		p.doubt = p.doubt || time.Since(p.beat) >= p.session
		p.mu.Unlock()
	}
}

func joins(key int16) bool {
	return key == int16(kmsg.JoinGroup) || key == int16(kmsg.SyncGroup)
}

// OnBrokerE2E implements kgo.HookBrokerE2E.
func (p *pulse) OnBrokerE2E(_ kgo.BrokerMetadata, key int16, e kgo.BrokerE2E) {
	switch {
	case joins(key):
		p.mu.Lock()
		defer p.mu.Unlock()
		if e.WriteErr == nil {
			p.waiting--
		}
		if e.Err() == nil {
			p.beat = time.Now()
		}
	case key == int16(kmsg.Heartbeat) && e.Err() == nil:
		if p.answered(time.Now().Add(-e.DurationE2E())) {
			p.resumed()
		}
	}
}

// answered takes in a heartbeat that was sent at a time. It says whether a doubt is over that somebody was told of.
func (p *pulse) answered(sent time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.doubt = sent.Sub(p.beat) >= p.session
	if sent.After(p.beat) {
		p.beat = sent
	}
	if p.doubt || !p.denied {
		return false
	}
	p.denied = false
	return true
}
