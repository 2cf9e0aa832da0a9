package changelog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// TopicError is a topic that is missing, cannot be created, or would lose state as it is.
type TopicError struct {
	Topic   string
	Problem string
	// Remedy is what to do: where one command repairs the topic, that command.
	Remedy string
}

// Error says what is wrong with the topic and what to do.
func (e *TopicError) Error() string {
	return "kolk: topic " + e.Topic + ": " + e.Problem + "; " + e.Remedy
}

// Topics are internal topics as they were found, by name.
type Topics map[string]Topic

// Topic is an internal topic as it was found.
type Topic struct {
	// ID changes when a topic is deleted and made anew. It is zero with brokers before Kafka 2.8.
	ID [16]byte
	// Partitions is how many the topic has.
	Partitions int32
	// TombstoneRetention is how long a tombstone stays on a compacted topic. A checkpoint older than that cannot be brought up to date: a deleted row's tombstone
	// may be gone. Zero if the broker does not tell.
	TombstoneRetention time.Duration
	// Retention is the age at which the broker deletes records: with cleanup.policy delete its retention.ms. Zero if it deletes none by age, or does not tell.
	Retention time.Duration
	// CompactionLag is the age below which records are not compacted; zero if there is none.
	CompactionLag time.Duration
	// Notes are differences from the wanted configuration that lose nothing, for the log.
	Notes []string
}

const (
	ensureWithin   = time.Minute
	ensureFirstGap = 20 * time.Millisecond
	ensureLastGap  = time.Second
)

// Ensure creates the topics that are missing, waits until the cluster knows them all, and checks all of them, created ones too, as a broker's policy may have changed
// what was asked for. It never alters a topic ([Protect] may, later). Several instances may do this at once: a topic that another one has just created is as good as an own one.
//
// The error joins everything that is wrong, one [*TopicError] each, in the order of topics. It is another error if the cluster cannot be reached, or if ctx ends. Topics
// that do not become visible within a minute are an error as well.
func Ensure(ctx context.Context, adm *kadm.Client, specs []Spec) (Topics, error) {
	ctx, cancel := context.WithTimeout(ctx, ensureWithin)
	defer cancel()
	e := ensurer{adm: adm, wanted: map[string]wanted{}, broker: "BROKER:9092"}
	if err := e.plan(specs); err != nil {
		return nil, err
	}
	for gap := ensureFirstGap; ; gap = min(2*gap, ensureLastGap) {
		topics, waiting, err := e.round(ctx)
		if err == nil && waiting == "" {
			return topics, nil
		}
		if err != nil {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for internal topics, of which %s: %w", waiting, context.Cause(ctx))
		case <-time.After(gap):
		}
	}
}

type wanted struct {
	Spec
	config map[string]string
}

type ensurer struct {
	adm    *kadm.Client
	names  []string // sorted
	wanted map[string]wanted
	broker string // an address for the commands in remedies
}

// plan checks the specs before anything is asked of a broker.
func (e *ensurer) plan(specs []Spec) error {
	var faults []error
	for _, s := range slices.SortedFunc(slices.Values(specs), func(a, b Spec) int { return cmp.Compare(a.Name, b.Name) }) {
		if err := ValidName(s.Name); err != nil {
			faults = append(faults, &TopicError{s.Name, err.Error(), "choose other or shorter names for the application and for " + s.owner()})
			continue
		}
		config, err := s.Config()
		if err != nil {
			faults = append(faults, &TopicError{s.Name, err.Error(), "remove it from the configuration of " + s.owner() + " or of the internal topics"})
			continue
		}
		if s.Partitions < 1 {
			faults = append(faults, &TopicError{s.Name, fmt.Sprintf("%d partitions are asked for", s.Partitions), "check that the source topics of " + s.owner() + " exist"})
			continue
		}
		if other, ok := e.wanted[s.Name]; ok {
			if other.Kind != s.Kind || other.Partitions != s.Partitions || !maps.Equal(other.config, config) {
				faults = append(faults, &TopicError{s.Name, fmt.Sprintf("%s and %s both need it, differently", other.owner(), s.owner()), "give one of them another name"})
			}
			continue
		}
		e.names = append(e.names, s.Name)
		e.wanted[s.Name] = wanted{s, config}
	}
	return errors.Join(faults...)
}

// round looks, creates what is missing, and checks. If that cannot be finished yet it says which topic it waits for and why.
func (e *ensurer) round(ctx context.Context) (topics Topics, waiting string, err error) {
	if len(e.names) == 0 {
		return Topics{}, "", nil
	}
	// The client's cache may be seconds old. Asking for authorized operations bypasses it.
	meta, err := e.adm.Metadata(kadm.WithAuthorizedOps(ctx), e.names...)
	if err != nil {
		return nil, "", fmt.Errorf("listing internal topics: %w", err)
	}
	if len(meta.Brokers) > 0 {
		e.broker = net.JoinHostPort(meta.Brokers[0].Host, strconv.Itoa(int(meta.Brokers[0].Port)))
	}
	var missing []string
	var faults []error
	for _, name := range e.names {
		detail, ok := meta.Topics[name]
		switch {
		case !ok || errors.Is(detail.Err, kerr.UnknownTopicOrPartition):
			missing = append(missing, name)
		case detail.Err != nil && !kerr.IsRetriable(detail.Err):
			faults = append(faults, &TopicError{name, "cannot be read: " + detail.Err.Error(), "allow this client DESCRIBE, READ and WRITE on the topic"})
		case detail.Err != nil:
			waiting = name + " is not ready: " + detail.Err.Error()
		default:
			for _, p := range detail.Partitions {
				if p.Err != nil || p.Leader < 0 {
					waiting = fmt.Sprintf("%s/%d has no leader yet", name, p.Partition)
				}
			}
		}
	}
	if err := errors.Join(faults...); err != nil {
		return nil, "", err
	}
	if len(missing) > 0 {
		return nil, missing[0] + " is not visible yet", e.create(ctx, missing)
	}
	if waiting != "" {
		return nil, waiting, nil
	}
	return e.check(ctx, meta.Topics)
}

// create asks for the topics, those of the same shape in one request.
func (e *ensurer) create(ctx context.Context, missing []string) error {
	shapes := map[string][]string{}
	for _, name := range missing {
		w := e.wanted[name]
		shape := fmt.Sprint(w.Partitions, w.Replicas, w.config) // fmt prints maps sorted
		shapes[shape] = append(shapes[shape], name)
	}
	var faults []error
	for _, shape := range slices.Sorted(maps.Keys(shapes)) {
		w := e.wanted[shapes[shape][0]]
		replicas := w.Replicas
		if replicas == 0 {
			replicas = -1
		}
		config := map[string]*string{}
		for k, v := range w.config {
			config[k] = kadm.StringPtr(v)
		}
		created, err := e.adm.CreateTopics(ctx, w.Partitions, replicas, config, shapes[shape]...)
		if err != nil {
			return fmt.Errorf("creating internal topics %v: %w", shapes[shape], err)
		}
		for _, name := range shapes[shape] {
			c := created[name]
			if c.Err == nil || errors.Is(c.Err, kerr.TopicAlreadyExists) || kerr.IsRetriable(c.Err) {
				continue // the next round sees what became of it
			}
			problem := "cannot be created: " + c.Err.Error()
			if c.ErrMessage != "" {
				problem += ": " + c.ErrMessage
			}
			faults = append(faults, &TopicError{name, problem, "allow it, or create the topic with: " + e.createCommand(e.wanted[name])})
		}
	}
	return errors.Join(faults...)
}

// check reads the configurations of topics that all exist, and compares.
func (e *ensurer) check(ctx context.Context, found kadm.TopicDetails) (Topics, string, error) {
	described, err := e.adm.DescribeTopicConfigs(ctx, e.names...)
	if err != nil {
		return nil, "", fmt.Errorf("reading the configuration of internal topics, for which this client needs DESCRIBE_CONFIGS: %w", err)
	}
	topics := Topics{}
	var faults []error
	for _, name := range e.names {
		resource, err := described.On(name, nil)
		if err == nil {
			err = resource.Err
		}
		if errors.Is(err, kerr.UnknownTopicOrPartition) || kerr.IsRetriable(err) {
			return nil, name + " is not known to all brokers yet", nil
		}
		if err != nil {
			faults = append(faults, &TopicError{name, "its configuration cannot be read: " + err.Error(), "allow this client DESCRIBE_CONFIGS on the topic"})
			continue
		}
		config := map[string]string{}
		for _, c := range resource.Configs {
			if c.Value != nil {
				config[c.Key] = *c.Value
			}
		}
		detail := found[name]
		notes, wrong := e.verify(e.wanted[name], int32(len(detail.Partitions)), config)
		faults = append(faults, wrong...)
		topic := Topic{ID: detail.ID, Partitions: int32(len(detail.Partitions)), Notes: notes}
		if ms, err := strconv.ParseInt(config[deleteRetention], 10, 64); err == nil {
			topic.TombstoneRetention = millis(ms)
		}
		if _, deletes := policies(config[cleanupPolicy]); deletes {
			topic.Retention = millis(max(number(config[retentionMS]), 0))
		}
		topic.CompactionLag = millis(max(number(config[compactionLag]), 0))
		topics[name] = topic
	}
	if err := errors.Join(faults...); err != nil {
		return nil, "", err
	}
	return topics, "", nil
}
