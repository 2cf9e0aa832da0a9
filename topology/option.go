package topology

import (
	"reflect"
	"time"

	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/internal/seal"
	"github.com/kolkstreams/kolk/processor"
	"github.com/kolkstreams/kolk/store"
)

// Options are sealed: each operator has its own kind, and an option that makes no sense for it does not compile.
type (
	// SourceOption changes Builder.Stream.
	SourceOption interface{ source() }
	// TableOption changes Builder.Table. Every store.Option is one.
	TableOption interface{ seal.Table }
	// NodeOption changes an operator without state. Every operator takes it.
	NodeOption interface{ node() }
	// TryOption changes an operator whose function can fail.
	TryOption interface{ try() }
	// StateOption changes an operator with state. Every store.Option is one.
	StateOption interface{ seal.State }
	// LookupOption changes a join that looks up a table.
	LookupOption interface{ lookup() }
	// ProcessOption is a store that a processor opens, or an option of its stage: Process("watch", newWatch, lastSeen, OnError(Skip)). Every store.Any is one.
	ProcessOption interface{ seal.Process }
	// GroupOption changes the repartition topic of a grouping.
	GroupOption interface{ group() }
	// SinkOption changes a sink.
	SinkOption interface{ sink() }
	// BufferOption changes Throttle and Suppress.
	BufferOption interface{ buffer() }
	// SuppressOption changes Suppress. Every BufferOption is one.
	SuppressOption interface{ suppress() }
	// AsOfOption changes a join with a versioned table.
	AsOfOption interface{ asOf() }
	// ForeignOption changes a foreign-key join.
	ForeignOption interface{ foreign() }
)

type (
	tableMark   = seal.TableMark
	stateMark   = seal.StateMark
	processMark = seal.ProcessMark
)

type nameOption struct {
	tableMark
	stateMark
	name string
}

func (nameOption) source()  {}
func (nameOption) node()    {}
func (nameOption) try()     {}
func (nameOption) sink()    {}
func (nameOption) lookup()  {}
func (nameOption) foreign() {}

// Named gives a node a name for descriptions, metrics and errors. Nodes without one are numbered as in Kafka Streams. It has no influence on topics or stores.
func Named(name string) interface {
	SourceOption
	TableOption
	NodeOption
	TryOption
	SinkOption
	StateOption
	LookupOption
	AsOfOption
	ForeignOption
} {
	return nameOption{name: name}
}

type changelogOption struct{ tableMark }

// SourceIsChangelog restores a table from its source topic, which must be compacted, instead of a changelog.
func SourceIsChangelog() TableOption { return changelogOption{} }

type startOption struct{ start Offset }

func (startOption) source() {}

// From says where to begin on a partition without committed offset; Earliest unless set. Where that is gets committed as soon as the task runs: records that come
// while the application is down are read after the next start, also if there was none before.
func From(o Offset) SourceOption { return startOption{o} }

// Offset is where to begin.
type Offset struct {
	latest bool
	back   time.Duration
}

// The ends of a partition. Latest is where it ends when the task first runs.
var (
	Earliest = Offset{}
	Latest   = Offset{latest: true}
)

// Ago begins with the first record not older than d.
func Ago(d time.Duration) Offset { return Offset{back: d} }

type fillOption struct{ tableMark }

func (fillOption) source() {}

// FillTime gives a record whose event time lies before 1970 the largest event time taken from its partition so far, which survives restarts and moves. A record
// that comes before any with a time is dropped and counted under "no_time", as all are without FillTime.
func FillTime() interface {
	SourceOption
	TableOption
} {
	return fillOption{}
}

type errorOption struct {
	tableMark
	processMark
	policy Policy
}

func (errorOption) source() {}
func (errorOption) try()    {}
func (errorOption) sink()   {}

// OnError says what becomes of records this stage cannot decode, process or write. The application's policy holds unless set.
func OnError(p Policy) interface {
	SourceOption
	TableOption
	TryOption
	ProcessOption
	SinkOption
} {
	return errorOption{policy: p}
}

// Policy is what to do with a record that failed, or that an operator drops. The zero Policy is that of nothing being said: Stop for an OnError, and for the
// application's own policies.
//
// Under Skip and DeadLetter only the record at this stage ends. As in Kafka Streams, work that was already done with it stays: that of the stages before, that of other
// branches, and what the failing function itself wrote to its stores or forwarded before it failed. A failing function of an aggregate writes nothing.
type Policy struct{ policy }

type policy = engine.HeldPolicy

var (
	// Stop ends the application; nothing of the transaction remains. The default for records that fail.
	Stop = Policy{engine.HoldPolicy(engine.Policy{Kind: engine.Stop})}
	// Skip drops the record and counts it. The default for records that operators drop.
	Skip = Policy{engine.HoldPolicy(engine.Policy{Kind: engine.Skip})}
)

// DeadLetter sends the source record to a topic, in the same transaction: key, value, time and headers as they came, and in further headers what happened.
// Kafka Streams' headers __streams.errors.* say where it came from and what the error was; kolk.node and kolk.reason say which node and which processor.Reason.
func DeadLetter(topic string) Policy {
	return Policy{engine.HoldPolicy(engine.Policy{Kind: engine.DeadLetter, Topic: topic})}
}

type dropOption struct {
	tableMark
	stateMark
	rule engine.DropRule
}

func (dropOption) source()  {}
func (dropOption) lookup()  {}
func (dropOption) foreign() {}

// OnDrop says what becomes of records this operator would drop for one of the reasons: OnDrop(DeadLetter("late-orders"), processor.Late). They are counted in any case.
// Without reasons it holds for those that lose data nobody meant to lose: late, expired, ahead, null_key, null_value, no_time. To be told of all drops of an application, see
// kolk.Hooks.
func OnDrop(p Policy, reasons ...processor.Reason) interface {
	SourceOption
	TableOption
	StateOption
	LookupOption
	AsOfOption
	ForeignOption
} {
	rule := engine.DropRule{Policy: stopIfUnset(engine.PolicyOf(p))}
	for _, r := range reasons {
		rule.Reasons = append(rule.Reasons, string(r))
	}
	return dropOption{rule: rule}
}

func stopIfUnset(p engine.Policy) engine.Policy {
	if p.Kind == engine.Unset {
		p.Kind = engine.Stop
	}
	return p
}

type groupOption struct {
	partitions int
	shared     string
	named      bool // made by Shared
}

func (groupOption) group() {}

// Partitions sets the number of partitions of a repartition topic; by default it follows the sources. It says nothing where no such topic is needed.
func Partitions(n int) GroupOption { return groupOption{partitions: n} }

// Shared gives several aggregations of one grouping one repartition topic of this name, if they need one.
func Shared(name string) GroupOption { return groupOption{shared: name, named: true} }

// settings is what the options of one operator say.
type settings struct {
	place           string
	name            string
	named           bool // a name was given, even if it is a bad one
	derived         bool // the name comes from that of a topic, which is checked
	onError         engine.Policy
	onDrop          []engine.DropRule
	start           engine.Start
	fillTime        bool
	partitions      int
	shared          string
	sourceChangelog bool
	maxRecords      int64 // 0 if none were set
	maxBytes        int64
	stopFull        bool
	unmatchedLate   bool
	store           []store.Option
	handles         []store.Any
}

// gather reads options. What is wrong with them is a fault at the coming node.
func gather[O any](b *Builder, opts []O) settings {
	s := settings{place: caller()}
	wrong := func(node, problem, remedy string) { b.faults.add(len(b.nodes), node, problem, remedy, s.place) }
	policy := func(p engine.Policy) {
		if p.Kind == engine.DeadLetter {
			if problem := badTopic(p.Topic); problem != "" {
				wrong(p.Topic, "dead letter topic: "+problem, "name an existing topic")
				return
			}
		}
	}
	for _, o := range opts {
		switch o := any(o).(type) {
		case nil:
			wrong("option", "an option is nil", "leave it out")
		case nameOption:
			s.name, s.named = o.name, true
		case changelogOption:
			s.sourceChangelog = true
		case startOption:
			if o.start.back < 0 {
				wrong("From", "a record cannot be younger than now", "give Ago a duration of zero or more")
			}
			s.start = engine.Start{Latest: o.start.latest, Back: o.start.back.Milliseconds()}
		case fillOption:
			s.fillTime = true
		case errorOption:
			s.onError = stopIfUnset(engine.PolicyOf(o.policy))
			policy(s.onError)
		case dropOption:
			policy(o.rule.Policy)
			s.onDrop = append(s.onDrop, o.rule)
		case groupOption:
			switch {
			case !o.named && o.partitions < 1:
				wrong("Partitions", "a topic cannot have less than one partition", "give a number from 1 on, or leave it out")
			case !o.named:
				s.partitions = o.partitions
			case badName(o.shared) != "":
				wrong("Shared", badName(o.shared), nameRemedy)
			default:
				s.shared = o.shared
			}
		case lateOption:
			s.unmatchedLate = true
		case bufferOption:
			o.settle(&s, wrong)
		case store.Option:
			s.store = append(s.store, o)
		case store.Any:
			s.handles = append(s.handles, o)
		}
	}
	return s
}

// same says whether two readers of one topic want the same of it.
func (s settings) same(o settings) bool {
	return s.start == o.start && s.fillTime == o.fillTime && s.onError == o.onError && reflect.DeepEqual(s.onDrop, o.onDrop) && (s.name == o.name || s.name == "" || o.name == "")
}
