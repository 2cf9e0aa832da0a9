package window

import (
	"time"

	"github.com/kolkstreams/kolk/internal/span"
)

type (
	windows  = span.WindowsHook
	sessions = span.SessionsHook
	join     = span.JoinHook
)

// Spec describes windows whose place in time is fixed by their kind alone. Make one with Tumbling, Hopping, Sliding, Daily,
// Weekly, Monthly, Quarterly or Yearly; the zero Spec is refused by Build. The methods return changed copies. Specs may be compared.
type Spec struct{ windows }

func spec(w span.Windows) Spec { return Spec{w.Hook()} }

// Tumbling windows lie side by side from the epoch on, each of the given size, at least one millisecond.
func Tumbling(size time.Duration) Spec { return spec(span.NewAligned(size, size)) }

// Hopping windows have the given size and start every advance, so a record is in size/advance of them. The advance is at most the size.
func Hopping(size, advance time.Duration) Spec { return spec(span.NewAligned(size, advance)) }

// Sliding windows hold the records that lie at most difference apart; a new window exists for each new combination. For a record at t that is a window that ends
// at t, and one that begins a millisecond behind t as soon as there are later records for it. In which order the records come makes no difference.
//
// It does once one comes that is so late that the window which ends with it is closed, while later ones that it lies in are open. As in Kafka Streams it counts in the open
// windows that are there, and has none that ends with it; those that are made later need not hold it, and one that is made of them may begin behind it and hold it
// all the same. Where that matters, give a grace that no record exceeds: those beyond it are counted under "late".
func Sliding(difference time.Duration) Spec { return spec(span.NewSliding(difference)) }

// Daily windows run from midnight to midnight in loc, 23 or 25 hours long on the days the clocks change. time.Local is refused by Build, as
// it may be another zone on another machine.
func Daily(loc *time.Location) Spec { return spec(span.NewDated(span.Day, loc, 0)) }

// Weekly windows run from midnight to midnight a week later in loc, beginning on first: time.Monday for ISO weeks.
func Weekly(loc *time.Location, first time.Weekday) Spec {
	return spec(span.NewDated(span.Week, loc, first))
}

// Monthly windows run from the first of a month to the first of the next in loc.
func Monthly(loc *time.Location) Spec { return spec(span.NewDated(span.Month, loc, 0)) }

// Quarterly windows run from the first of January, April, July or October in loc.
func Quarterly(loc *time.Location) Spec { return spec(span.NewDated(span.Quarter, loc, 0)) }

// Yearly windows run from the first of January in loc.
func Yearly(loc *time.Location) Spec { return spec(span.NewDated(span.Year, loc, 0)) }

// Grace is how far stream time may pass a window's end before the window is closed. Zero unless set. Records for a closed
// window are dropped and counted under "late".
func (s Spec) Grace(d time.Duration) Spec { return spec(span.Of(s).WithGrace(d)) }

// Retain keeps closed windows readable for d after their start. The default, and the least, is size plus grace; for sliding windows twice the
// difference plus grace; for calendar windows the longest of them plus grace.
func (s Spec) Retain(d time.Duration) Spec { return spec(span.Of(s).WithRetention(d)) }

// String is the windows in words: "hopping(5m0s,1m0s), grace 10s".
func (s Spec) String() string { return span.Of(s).String() }

// SessionSpec describes sessions: runs of records of one key with no pause longer than a gap. The zero SessionSpec is refused by Build.
type SessionSpec struct{ sessions }

// Sessions end after a pause longer than gap, at least one millisecond. A pause of exactly gap still belongs together.
func Sessions(gap time.Duration) SessionSpec { return SessionSpec{span.NewSessions(gap).Hook()} }

// Grace is how far stream time may pass a session's end plus its gap before the session is closed. Zero unless set.
func (s SessionSpec) Grace(d time.Duration) SessionSpec {
	return SessionSpec{span.OfSessions(s).WithGrace(d).Hook()}
}

// MaxLength starts a new session rather than let one grow longer than d. Without it a busy key's session never ends. Each cut is counted, under "cut": see kolk.Misses.
func (s SessionSpec) MaxLength(d time.Duration) SessionSpec {
	return SessionSpec{span.OfSessions(s).WithLimit(d).Hook()}
}

// Retain keeps closed sessions readable for d after their end. The default, and the least, is the gap plus grace.
func (s SessionSpec) Retain(d time.Duration) SessionSpec {
	return SessionSpec{span.OfSessions(s).WithRetention(d).Hook()}
}

// String is the sessions in words: "sessions(30m0s), grace 1m0s".
func (s SessionSpec) String() string { return span.OfSessions(s).String() }

// JoinSpec says how far apart two records may be to be joined. The zero JoinSpec is refused by Build.
type JoinSpec struct{ join }

// Within joins records at most d apart, either way, both ends included.
func Within(d time.Duration) JoinSpec { return JoinSpec{span.NewJoin(d, d).Hook()} }

// Following joins a right record with left ones that are at most d older.
func Following(d time.Duration) JoinSpec { return JoinSpec{span.NewJoin(0, d).Hook()} }

// Before sets how much older the right record may be than the left one. It may be negative if After makes up for it.
func (j JoinSpec) Before(d time.Duration) JoinSpec {
	return JoinSpec{span.OfJoin(j).WithBefore(d).Hook()}
}

// After sets how much younger the right record may be than the left one. It may be negative if Before makes up for it.
func (j JoinSpec) After(d time.Duration) JoinSpec {
	return JoinSpec{span.OfJoin(j).WithAfter(d).Hook()}
}

// Grace is how much longer an unmatched record waits for a late partner before a left or outer join gives it up. Zero unless set.
func (j JoinSpec) Grace(d time.Duration) JoinSpec {
	return JoinSpec{span.OfJoin(j).WithGrace(d).Hook()}
}

// String is the join's window in words: "before(0s),after(10m0s), grace 1m0s".
func (j JoinSpec) String() string { return span.OfJoin(j).String() }
