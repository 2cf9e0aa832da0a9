package store

import "github.com/kolkstreams/kolk/internal/state"

// Committed makes what Flush gave committed.
func (s *timed[K, V]) Committed() {
	s.memory.Committed()
	s.segmented.committed()
}

// Rollback lets dirty entries fall back, and the observed time too.
func (s *timed[K, V]) Rollback() {
	s.memory.Rollback()
	s.segmented.rollback()
}

// Freeze moves the committed entries into the frozen layer.
func (s *timed[K, V]) Freeze() []state.Batch {
	s.check()
	s.epoch++
	if len(s.frozen.list) > 0 {
		return nil
	}
	batches := s.freezeParts()
	s.account()
	return batches
}

// FreezeSegments gives the rows of the frozen layer.
func (s *timed[K, V]) FreezeSegments() ([]state.SegmentBatch, []state.Segment) {
	s.check()
	return s.segmented.rows, s.drop
}

// Applied drops the frozen layer: the backend shows it.
func (s *timed[K, V]) Applied() {
	was := s.memory.rows
	s.memory.Applied()
	s.segmented.applied(was - s.memory.rows)
}

// Stats are as of the last write.
func (s *timed[K, V]) Stats() state.Stats {
	st := s.memory.Stats()
	st.Memory += s.filters
	return st
}

// Close gives the store's memory back.
func (s *timed[K, V]) Close() {
	s.memory.Close()
	s.segmented.close()
}

// Restore takes one committed changelog record, unless it has expired.
func (s *timed[K, V]) Restore(name, value []byte, at int64) error {
	s.check()
	p, err := s.readName(name)
	if err != nil {
		return err
	}
	if s.before(p.at) {
		return nil
	}
	s.observe(p.at)
	s.settledAt = max(s.settledAt, p.at)
	return s.memory.Restore(name, value, at)
}

// Load hands a committed changelog record to the bulk loader, unless it has expired.
func (s *timed[K, V]) Load(to state.Loader, name, value []byte, at int64) error {
	s.check()
	if _, err := s.readName(name); err != nil {
		return err
	}
	return s.segmented.load(to, name, value, at)
}

// Observed is the largest time that was written.
func (s *timed[K, V]) Observed() int64 {
	s.check()
	s.learnTime()
	return s.observed
}
