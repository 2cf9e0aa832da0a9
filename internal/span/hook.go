package span

import "github.com/kolkstreams/kolk/internal/state"

// What public types embed, so that only packages of this module can read them.

type (
	// Windowed is implemented by what embeds Windows' hook.
	Windowed interface{ windows() Windows }
	// Sessioned is implemented by what embeds Sessions' hook.
	Sessioned interface{ sessions() Sessions }
	// Joining is implemented by what embeds Join's hook.
	Joining interface{ join() Join }
	// Tailed is implemented by serdes of windowed keys.
	Tailed interface {
		tail() int
		faults() []state.Fault
	}
)

type (
	// WindowsHook carries Windows inside a public type.
	WindowsHook struct{ w Windows }
	// SessionsHook carries Sessions inside a public type.
	SessionsHook struct{ s Sessions }
	// JoinHook carries a Join inside a public type.
	JoinHook struct{ j Join }
	// TimeTail marks a serde that writes a key and then the start of a window.
	TimeTail struct{ Windows Windows }
	// SessionTail marks a serde that writes a key and then the end and the start of a session.
	SessionTail struct{}
)

func (h WindowsHook) windows() Windows    { return h.w }
func (h SessionsHook) sessions() Sessions { return h.s }
func (h JoinHook) join() Join             { return h.j }
func (TimeTail) tail() int                { return 8 }
func (SessionTail) tail() int             { return 16 }

func (t TimeTail) faults() []state.Fault  { return t.Windows.Faults() }
func (SessionTail) faults() []state.Fault { return nil }

// Hook makes the hook of a public type.
func (w Windows) Hook() WindowsHook { return WindowsHook{w} }

// Hook makes the hook of a public type.
func (s Sessions) Hook() SessionsHook { return SessionsHook{s} }

// Hook makes the hook of a public type.
func (j Join) Hook() JoinHook { return JoinHook{j} }

// Of reads a window.Spec.
func Of(w Windowed) Windows { return w.windows() }

// OfSessions reads a window.SessionSpec.
func OfSessions(s Sessioned) Sessions { return s.sessions() }

// OfJoin reads a window.JoinSpec.
func OfJoin(j Joining) Join { return j.join() }

// TailOf is how many bytes of the keys that a serde writes are the window, at their end. The others alone choose the partition. It is 0 for
// serdes of other keys.
func TailOf(serde any) int {
	if t, ok := serde.(Tailed); ok {
		return t.tail()
	}
	return 0
}

// KeyFaults are what is wrong with the windows whose keys a serde writes; none for serdes of other keys.
func KeyFaults(serde any) []state.Fault {
	if t, ok := serde.(Tailed); ok {
		return t.faults()
	}
	return nil
}

// WindowsOf are the windows whose keys a serde writes, without grace and retention; ok is false for serdes of sessions and of other keys.
func WindowsOf(serde any) (w Windows, ok bool) {
	t, ok := serde.(interface{ bare() Windows })
	if !ok {
		return w, false
	}
	return t.bare(), true
}

func (t TimeTail) bare() Windows { return t.Windows }
