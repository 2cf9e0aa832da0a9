package changelog

import (
	"sync"
	"time"
)

// rateWindow is how far back the rate looks: between one and two of these.
const rateWindow = 4 * time.Second

// Progress is how far one restore is. Hand a new one to [Reader.Restore] and read it with State from any goroutine, before, during and after.
type Progress struct {
	mu       sync.Mutex
	state    State
	older    mark // the rate counts from here
	newer    mark // becomes older after rateWindow
	finished time.Time
}

// mark is what was done at one moment.
type mark struct {
	at                time.Time
	records, position int64
}

// State is a restore at one moment.
type State struct {
	Topic     string
	Partition int32
	// From is where it began, Position the offset read next, End where it is done. From and Position are -1 while the start of the log is being looked up.
	From, Position, End int64
	// Records and Bytes (of keys and values) are what was handed to the store. Aborted records, markers and holes are in offsets, not here, so Records and
	// Position do not move together.
	Records, Bytes int64
	// Started is when it began; zero before that.
	Started time.Time
	// Rate is records a second over the last seconds; once done, over the whole restore.
	Rate float64
	// Left is the time to the end at the present pace of offsets. Zero when done, and while it is not known.
	Left time.Duration
	// StalledSince is when the position last moved, if that is longer ago than Config.StallAfter; else zero.
	StalledSince time.Time
	// Done is true once the position has reached the end. It stays false when the restore failed.
	Done bool
}

// State is how far the restore is now.
func (p *Progress) State() State {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.state
	if s.Started.IsZero() {
		return s
	}
	if s.Done {
		if took := p.finished.Sub(s.Started).Seconds(); took > 0 {
			s.Rate = float64(s.Records) / took
		}
		return s
	}
	if took := time.Since(p.older.at).Seconds(); took > 0 {
		s.Rate = float64(s.Records-p.older.records) / took
		if moved := s.Position - p.older.position; moved > 0 {
			left := float64(s.End-s.Position) / (float64(moved) / took) * float64(time.Second)
			s.Left = time.Duration(min(left, float64(1<<62)))
		}
	}
	return s
}

func (p *Progress) begin(part Part) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.state = State{Topic: part.Topic, Partition: part.Partition, From: part.From, Position: part.From, End: part.End, Started: now}
	p.older = mark{at: now, position: part.From}
	p.newer = p.older
}

// startsAt sets where the log begins, for a restore from there.
func (p *Progress) startsAt(offset int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state.From, p.state.Position = offset, offset
	p.older.position, p.newer.position = offset, offset
}

func (p *Progress) moved(position int64, records int, bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state.Position = position
	p.state.Records += int64(records)
	p.state.Bytes += bytes
	p.state.StalledSince = time.Time{}
	if now := time.Now(); now.Sub(p.newer.at) >= rateWindow {
		p.older = p.newer
		p.newer = mark{at: now, records: p.state.Records, position: position}
	}
}

func (p *Progress) stalled(since time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state.StalledSince = since
}

func (p *Progress) done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.finished = time.Now()
	p.state.Done = true
	p.state.Left = 0
	p.state.StalledSince = time.Time{}
}
