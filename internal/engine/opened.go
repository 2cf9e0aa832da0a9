package engine

import "github.com/kolkstreams/kolk/internal/state"

// Opened is a store as processors see it; nil if the sub-topology has none of that name.
func (t *Task) Opened(d state.Declared) any {
	s := t.Store(d)
	if o, ok := s.(state.Opener); ok {
		return o.Opened()
	}
	return s
}
