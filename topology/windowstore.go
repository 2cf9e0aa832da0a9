package topology

import (
	"fmt"
	"time"

	"github.com/kolkstreams/kolk/internal/span"
	"github.com/kolkstreams/kolk/internal/state"
	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/store"
)

// windowsOf is the store of a table of windows, with the handles for the users of its rows.
type windowsOf[K comparable, V any] struct {
	*storeRef
	spans *spans
	o     settings
	final bool // somebody wants the results of closed windows
	// windows is the handle for readers; that of sessions is for processors, and names the same store.
	windows  store.WindowHandle[K, V]
	sessions store.SessionHandle[K, V]
}

// declareWindows makes the store of an aggregation in windows. It is completed by a call of belongs.
func declareWindows[K comparable, V any](b *Builder, name string, x *spans, o settings) *windowsOf[K, V] {
	r := &windowsOf[K, V]{storeRef: &storeRef{}, spans: x, o: o}
	r.windows = store.NewWindow[K, V](name, nil, nil, time.Millisecond, time.Millisecond)
	r.decl = state.Of(r.windows)
	if x.session {
		r.sessions = store.NewSession[K, V](name, nil, nil, time.Millisecond)
		r.decl = state.Of(r.sessions)
	}
	r.decl.Place = o.place
	b.stores = append(b.stores, r.storeRef)
	return r
}

// belongs says whose store it is, and with which serdes. See rowsOf.belongs.
func (r *windowsOf[K, V]) belongs(n *node, key codec[K], value codec[V]) {
	r.node = n
	r.ready = func() {
		ks, ok := key.need(n, "key")
		vs, ok2 := value.need(n, "value")
		if !ok || !ok2 {
			return
		}
		fresh := r.declared(r.decl.Name, ks, vs)
		if len(r.spans.faults()) > 0 {
			fresh.Faults = nil // what is wrong with the windows is told already, and more would follow from it
		}
		for _, f := range fresh.Faults {
			n.b.faults.add(n.id, r.decl.Name, f.Problem, f.Remedy, r.o.place)
		}
		fresh.Place = r.o.place
		if fresh.Version == 0 {
			fresh.Version = n.b.version
		}
		*r.decl = *fresh
		*state.Of(r.windows) = *fresh
	}
}

// fits is a fault at n unless keys in these windows can be written with a topic's serde.
func (x *spans) fits(n *node, key any) {
	w, ok := span.WindowsOf(key)
	switch {
	case key == nil: // told already
	case x.session && ok, !x.session && !ok && span.TailOf(key) > 0:
		n.fault(fmt.Sprintf("the keys of its topic are written with %s, but the windows are %s", serde.Name(key), x), "use window.SessionKeySerde for sessions and window.KeySerde for other windows")
	case ok && w != x.w.Bare():
		n.fault(fmt.Sprintf("the keys of its topic are in the windows %s, but those of the table are %s", w, x), "give window.KeySerde the windows of the table, or readers see wrong ends")
	}
}

func (x *spans) String() string {
	if x.session {
		return x.s.String()
	}
	return x.w.String()
}

// declared is the declaration of the store with some serdes, or none.
func (r *windowsOf[K, V]) declared(name string, ks serde.Serde[K], vs serde.Serde[V]) *state.Decl {
	if r.spans.session {
		d := state.Of(store.NewSession(name, ks, vs, millis(r.spans.s.Retention()), r.o.store...))
		d.Beyond = 1 // a session that is as old as the retention is still open
		return d
	}
	w := r.spans.w
	d := state.Of(store.NewWindow(name, ks, vs, millis(max(1, w.Size())), millis(max(1, w.Retention())), r.o.store...))
	d.Ends = w.End
	if r.final {
		d.Beyond = 1 // as in Kafka Streams
	}
	return d
}

func millis(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }
