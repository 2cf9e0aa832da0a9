package changelog

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Kind is what an internal topic is for. It decides the topic's configuration, and which differences of an existing topic lose state.
type Kind int

const (
	// KeyValue is the changelog of a store of last values: key-value, suppression, subscriptions, and the store that both sides of an outer join share.
	KeyValue Kind = iota
	// Windowed is the changelog of a window or session store.
	Windowed
	// JoinBuffer is the changelog of one side of a stream-stream join, where records with equal keys all count.
	JoinBuffer
	// Versioned is the changelog of a store that remembers older versions.
	Versioned
	// RepartitionTopic records are between two sub-topologies; the topic is not a changelog.
	RepartitionTopic
)

// String is the kind as it reads in a message.
func (k Kind) String() string {
	switch k {
	case KeyValue:
		return "key-value changelog"
	case Windowed:
		return "windowed changelog"
	case JoinBuffer:
		return "join buffer changelog"
	case Versioned:
		return "versioned changelog"
	case RepartitionTopic:
		return "repartition topic"
	}
	return "Kind(" + strconv.Itoa(int(k)) + ")"
}

// deletes says whether records of this kind of topic may be deleted by age or size.
func (k Kind) deletes() bool { return k == Windowed || k == JoinBuffer || k == RepartitionTopic }

// Slack is what the broker keeps beyond a store's own retention: it deletes by wall clock, while stores expire by stream time, which lags.
const Slack = 24 * time.Hour

// Names of topic configurations.
const (
	cleanupPolicy   = "cleanup.policy"
	timestampType   = "message.timestamp.type"
	retentionMS     = "retention.ms"
	retentionBytes  = "retention.bytes"
	segmentBytes    = "segment.bytes"
	compactionLag   = "min.compaction.lag.ms"
	deleteRetention = "delete.retention.ms"
)

const (
	compact    = "compact"
	deleting   = "delete"
	createTime = "CreateTime"
	unlimited  = "-1"
)

// Spec is an internal topic as it should be.
type Spec struct {
	// Name is the topic's, as [Changelog] or [Repartition] gives it.
	Name string
	// Kind is what the topic is for.
	Kind Kind
	// Partitions is how many the topic has: the number of tasks of its sub-topology. At least 1.
	Partitions int32
	// Replicas is the replication factor for a topic that is created. Zero means the broker's default.
	Replicas int16
	// Retention is how long state is needed, in event time: of a Windowed or JoinBuffer store its retention, of a Versioned store its history. The topic gets Slack on
	// top. KeyValue and RepartitionTopic do not use it.
	Retention time.Duration
	// Common are configurations for all internal topics of the application. They win over the kind's. retention.ms and retention.bytes can only be -1 here, because
	// what is right for one topic loses the state of another. May be nil.
	Common map[string]string
	// Overrides are configurations of this topic alone. They win over Common. May be nil.
	Overrides map[string]string
	// For names the store or operator the topic belongs to, for messages.
	For string
}

// Config is the configuration to create the topic with: the kind's, then Common, then Overrides. Its error joins what is not allowed in them.
// cleanup.policy and message.timestamp.type cannot be set, since state would be lost or windows would be wrong, and retention not below what the store needs.
func (s Spec) Config() (map[string]string, error) {
	config := s.defaults()
	var faults []error
	for _, key := range slices.Sorted(maps.Keys(s.Common)) {
		value := s.Common[key]
		if (key == retentionMS || key == retentionBytes) && value != unlimited {
			faults = append(faults, fmt.Errorf("%s=%s for all internal topics: only -1 is allowed there, set it for a single store", key, value))
			continue
		}
		faults = append(faults, s.set(config, key, value))
	}
	for _, key := range slices.Sorted(maps.Keys(s.Overrides)) {
		faults = append(faults, s.set(config, key, s.Overrides[key]))
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	return config, nil
}

func (s Spec) defaults() map[string]string {
	config := map[string]string{timestampType: createTime}
	switch s.Kind {
	case KeyValue:
		config[cleanupPolicy] = compact
	case Windowed:
		config[cleanupPolicy] = compact + "," + deleting
		config[retentionMS] = s.withSlack()
	case JoinBuffer:
		config[cleanupPolicy] = deleting
		config[retentionMS] = s.withSlack()
	case Versioned:
		config[cleanupPolicy] = compact
		config[compactionLag] = s.withSlack()
	case RepartitionTopic:
		config[cleanupPolicy] = deleting
		config[retentionMS] = unlimited
		config[segmentBytes] = "52428800" // small, so that a purge frees whole segments soon
	}
	return config
}

// set takes one configuration over, unless it would break the topic.
func (s Spec) set(config map[string]string, key, value string) error {
	switch {
	case key == cleanupPolicy || key == timestampType:
		return fmt.Errorf("%s cannot be set: correctness hangs on it", key)
	case key == retentionBytes && s.Kind.deletes() && value != unlimited:
		return fmt.Errorf("%s=%s would delete records that are still needed; only -1 is allowed", key, value)
	case key == retentionMS && s.Kind.deletes() || key == compactionLag && s.Kind == Versioned:
		ms, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return fmt.Errorf("%s=%s is not a number of milliseconds", key, value)
		}
		if key == retentionMS && ms == -1 {
			break
		}
		if need := s.Retention.Milliseconds(); ms < need {
			return fmt.Errorf("%s=%s is less than the %d ms that %s needs", key, value, need, s.owner())
		}
	}
	config[key] = value
	return nil
}

// withSlack is the store's retention with Slack in milliseconds; the largest number where the sum does not fit.
func (s Spec) withSlack() string {
	ms := s.Retention.Milliseconds()
	if slack := Slack.Milliseconds(); ms <= math.MaxInt64-slack {
		ms += slack
	}
	return strconv.FormatInt(ms, 10)
}

// owner is what the topic belongs to, for messages.
func (s Spec) owner() string {
	if s.For == "" {
		return "the " + s.Kind.String()
	}
	return strconv.Quote(s.For)
}

// policies splits a cleanup.policy, whose order means nothing.
func policies(value string) (compacts, deletes bool) {
	for p := range strings.SplitSeq(value, ",") {
		switch strings.TrimSpace(p) {
		case compact:
			compacts = true
		case deleting:
			deletes = true
		}
	}
	return compacts, deletes
}
