package kolk

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/kolkstreams/kolk/changelog"
	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/internal/state"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// topics is what is known of the cluster's topics: partition counts and ids.
type topics struct {
	adm *kadm.Client

	mu         sync.Mutex
	counts     map[string]int32
	ids        map[string][16]byte
	unknown    map[string]time.Time // when a topic was last asked for in vain
	tombstones map[string]time.Duration
	largest    map[string]int32 // the largest batch that a topic takes, bytes
}

// askAgain is how long a topic that does not exist is not asked for again.
const askAgain = 5 * time.Second

// find looks the user's topics up, works out the internal ones, creates those that are missing and checks the rest. Its error joins all that is wrong.
func (a *App) find(ctx context.Context, adm *kadm.Client, keep *retainer) (*topics, error) {
	c, t := &a.config, &topics{adm: adm, counts: make(map[string]int32), ids: make(map[string][16]byte), unknown: make(map[string]time.Time), tombstones: make(map[string]time.Duration), largest: make(map[string]int32)}
	if err := t.users(ctx, a.graph, c.Application); err != nil {
		return nil, err
	}
	counts, misfits := engine.Layout(a.graph, c.Application, t.counts)
	var faults []error
	for _, m := range misfits {
		faults = append(faults, &TopicError{Topic: m.Topic, Problem: m.Problem, Remedy: m.Remedy})
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	t.counts = counts
	var specs []changelog.Spec
	stores := make(map[string]*state.Decl)
	for _, s := range a.graph.Subs {
		for _, in := range s.Inputs {
			if in.Repartition {
				specs = append(specs, changelog.Spec{Name: in.Full(c.Application), Kind: changelog.RepartitionTopic, Partitions: counts[in.Full(c.Application)],
					Replicas: c.InternalTopics.Replicas, Common: c.InternalTopics.Config, For: in.Name})
			}
		}
		for _, d := range s.Stores {
			if d.Source == "" {
				stores[changelog.Changelog(c.Application, d.Name, d.Version)] = d
				specs = append(specs, changelog.Spec{Name: changelog.Changelog(c.Application, d.Name, d.Version), Kind: kindOf(d), Retention: time.Duration(d.Retention) * time.Millisecond, Partitions: s.Tasks(c.Application, counts),
					Replicas: c.InternalTopics.Replicas, Common: c.InternalTopics.Config, Overrides: d.Config, For: d.Name})
			}
		}
	}
	found, err := changelog.Ensure(ctx, adm, specs)
	if err = errors.Join(err, t.compacted(ctx, a.graph)); err != nil {
		return nil, err
	}
	for name, topic := range found {
		t.counts[name], t.ids[name], t.tombstones[name] = topic.Partitions, topic.ID, topic.TombstoneRetention
		if d := stores[name]; d != nil {
			keep.found(name, d, topic)
		}
		for _, note := range topic.Notes {
			c.Logger.Warn("internal topic differs from what kolk would create", "topic", name, "difference", note)
		}
	}
	return t, t.limits(ctx)
}

// kindOf is the kind of a store's changelog.
func kindOf(d *state.Decl) changelog.Kind {
	switch d.Kind {
	case "versioned":
		return changelog.Versioned
	case "window", "session":
		return changelog.Windowed
	case "join":
		return changelog.JoinBuffer
	}
	return changelog.KeyValue
}

// limits looks up how large a batch each topic takes. Batches are made no larger, so that a record that is refused is refused alone.
func (t *topics) limits(ctx context.Context) error {
	names := slices.Sorted(maps.Keys(t.counts))
	configs, err := t.adm.DescribeTopicConfigs(ctx, names...)
	if err != nil {
		return fmt.Errorf("look up configurations of topics: %w", err)
	}
	for _, c := range configs {
		for _, kv := range c.Configs {
			if n, err := strconv.ParseInt(kv.MaybeValue(), 10, 32); kv.Key == "max.message.bytes" && err == nil && n > 0 {
				t.largest[c.Name] = int32(n)
			}
		}
	}
	return nil
}

// batchLimit is the largest batch for a topic, in bytes before compression.
func (t *topics) batchLimit(topic string) int32 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := t.largest[topic]; n > 0 {
		return min(n, maxBatch)
	}
	return defaultBatch
}

// Kafka's default for the largest batch, and what any request may hold.
const (
	defaultBatch = 1_000_012
	maxBatch     = 64 << 20
)

// compacted checks the topics that tables are restored from: deleted records would be lost rows.
func (t *topics) compacted(ctx context.Context, g *engine.Graph) error {
	var names []string
	stores := make(map[string]string)
	for _, s := range g.Subs {
		for _, d := range s.Stores {
			if d.Source != "" && stores[d.Source] == "" {
				names, stores[d.Source] = append(names, d.Source), d.Name
			}
		}
	}
	if len(names) == 0 {
		return nil
	}
	configs, err := t.adm.DescribeTopicConfigs(ctx, names...)
	if err != nil {
		return fmt.Errorf("look up configurations of %v: %w", names, err)
	}
	var faults []error
	for _, c := range configs {
		if c.Err != nil {
			faults = append(faults, &TopicError{Topic: c.Name, Problem: fmt.Sprintf("store %q is restored from it, but its configuration cannot be read: %v", stores[c.Name], c.Err), Remedy: "grant DESCRIBE_CONFIGS on the topic"})
		}
		for _, kv := range c.Configs {
			if kv.Key == "cleanup.policy" && kv.MaybeValue() != "compact" {
				faults = append(faults, &TopicError{Topic: c.Name, Problem: fmt.Sprintf("store %q is restored from it, but its cleanup.policy is %q: rows would be lost", stores[c.Name], kv.MaybeValue()),
					Remedy: fmt.Sprintf("kafka-configs.sh --bootstrap-server BROKER:9092 --alter --entity-type topics --entity-name %s --add-config cleanup.policy=compact, or leave out topology.SourceIsChangelog", c.Name)})
			}
		}
	}
	return errors.Join(faults...)
}

// globals looks at the topics of global tables: rows are lost where records are deleted for another reason than a newer one.
func (t *topics) globals(ctx context.Context, in *instance) error {
	tables := make(map[string]string)
	for _, g := range in.graph.Globals {
		tables[g.Topic] = g.Store.Name
	}
	names := slices.Sorted(maps.Keys(tables))
	configs, err := t.adm.DescribeTopicConfigs(ctx, names...)
	if err != nil {
		return fmt.Errorf("look up configurations of %v: %w", names, err)
	}
	for _, c := range configs {
		if c.Err != nil {
			in.log.Warn("it is not known whether the topic of a global table is compacted", "table", tables[c.Name], "topic", c.Name, "error", c.Err)
			continue
		}
		for _, kv := range c.Configs {
			switch v := kv.MaybeValue(); {
			case kv.Key == "cleanup.policy" && v != "compact":
				in.status.notice(Notice{Subject: "global table " + tables[c.Name], Problem: fmt.Sprintf("its topic %s has cleanup.policy=%s: rows whose records the broker deletes are missing after the next copy", c.Name, v),
					Remedy: fmt.Sprintf("kafka-configs.sh --bootstrap-server BROKER:9092 --alter --entity-type topics --entity-name %s --add-config cleanup.policy=compact", c.Name)})
			case kv.Key == "delete.retention.ms":
				if ms, err := strconv.ParseInt(v, 10, 64); err == nil && ms > 0 && ms < math.MaxInt64/int64(time.Millisecond) {
					t.mu.Lock()
					t.tombstones[c.Name] = time.Duration(ms) * time.Millisecond
					t.mu.Unlock()
				}
			}
		}
	}
	return nil
}

// users looks up the topics that the user owns. Those that are read or written must exist.
func (t *topics) users(ctx context.Context, g *engine.Graph, app string) error {
	uses := make(map[string]string)
	var names []string
	add := func(name, use string) {
		if uses[name] == "" {
			names = append(names, name)
			uses[name] = use
		}
	}
	for _, s := range g.Subs {
		for _, in := range s.Inputs {
			if !in.Repartition {
				add(in.Name, "read")
			}
		}
		for _, out := range s.Outputs {
			if !out.Repartition && !out.Dynamic {
				add(out.Name, "written")
			}
		}
	}
	for _, t := range g.Globals {
		add(t.Topic, "copied to global table "+strconv.Quote(t.Store.Name))
	}
	for _, name := range g.DeadLetters {
		add(name, "written with dead letters")
	}
	found, err := t.list(ctx, names)
	if err != nil {
		return fmt.Errorf("look up topics: %w", err)
	}
	var faults []error
	for _, name := range names {
		d, ok := found[name]
		if !ok || d.Err != nil || len(d.Partitions) == 0 {
			problem := "it is " + uses[name] + " but does not exist"
			if ok && d.Err != nil && !errors.Is(d.Err, kerr.UnknownTopicOrPartition) {
				problem = fmt.Sprintf("it is %s but cannot be used: %v", uses[name], d.Err)
			}
			faults = append(faults, &TopicError{Topic: name, Problem: problem, Remedy: "create it, with as many partitions as it needs, before the application starts"})
			continue
		}
		t.counts[name], t.ids[name] = int32(len(d.Partitions)), d.ID
	}
	return errors.Join(faults...)
}

// list looks topics up. One that is missing is looked for a little longer: a broker learns of a new topic later than who created it.
func (t *topics) list(ctx context.Context, names []string) (kadm.TopicDetails, error) {
	for until := time.Now().Add(3 * time.Second); ; {
		found, err := t.adm.ListTopics(ctx, names...)
		missing := false
		for _, d := range found {
			missing = missing || errors.Is(d.Err, kerr.UnknownTopicOrPartition)
		}
		if err != nil || !missing || time.Now().After(until) {
			return found, err
		}
		select {
		case <-ctx.Done():
			return found, ctx.Err()
		case <-time.After(250 * time.Millisecond):
		}
	}
}

// partitions is the number of partitions of a topic; 0 if there is no such topic, or it cannot be looked up.
func (t *topics) partitions(topic string) int32 {
	n, err := t.lookUp(topic)
	if err != nil {
		return 0
	}
	return n
}

// lookUp is the number of partitions of a topic; 0 if there is no such topic. One that is asked for the first time is looked up, for up to
// half a minute where no broker answers.
func (t *topics) lookUp(topic string) (int32, error) {
	t.mu.Lock()
	n, ok := t.counts[topic]
	ok = ok || time.Since(t.unknown[topic]) < askAgain
	t.mu.Unlock()
	if ok {
		return n, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for {
		found, err := t.adm.ListTopics(ctx, topic)
		d := found[topic]
		if err == nil {
			err = d.Err
		}
		t.mu.Lock()
		switch {
		case err == nil && len(d.Partitions) > 0:
			t.counts[topic], t.ids[topic] = int32(len(d.Partitions)), d.ID
			n = t.counts[topic]
			t.mu.Unlock()
			return n, nil
		case err == nil || errors.Is(err, kerr.UnknownTopicOrPartition):
			t.unknown[topic] = time.Now()
			t.mu.Unlock()
			return 0, nil
		}
		t.mu.Unlock()
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("look up its partitions: %w", err)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func (t *topics) id(topic string) [16]byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ids[topic]
}

func (t *topics) count(topic string) int32 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.counts[topic]
}

// tombstoneLife is how long deletes stay on a compacted topic.
func (t *topics) tombstoneLife(topic string) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if d := t.tombstones[topic]; d > 0 {
		return d
	}
	return 24 * time.Hour
}
