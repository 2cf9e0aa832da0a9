package changelog

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var (
	counts  = Spec{Name: "app-counts-changelog", Kind: KeyValue, Partitions: 4, For: "counts"}
	windows = Spec{Name: "app-windows-changelog", Kind: Windowed, Partitions: 2, Retention: time.Hour, For: "windows"}
	joined  = Spec{Name: "app-left-changelog", Kind: JoinBuffer, Partitions: 2, Retention: time.Hour, For: "left"}
	prices  = Spec{Name: "app-prices-changelog", Kind: Versioned, Partitions: 1, Retention: time.Hour, For: "prices"}
	byCity  = Spec{Name: "app-by-city-repartition", Kind: RepartitionTopic, Partitions: 4, Replicas: 1, For: "by-city"}
)

func TestEnsureCreatesAndFindsAgain(t *testing.T) {
	t.Parallel()
	k := newKit(t, Config{}, kfake.NumBrokers(2))
	specs := []Spec{counts, windows, joined, prices, byCity, counts}
	created, err := Ensure(t.Context(), k.adm, specs)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Ensure(t.Context(), k.adm, specs)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(created, again); diff != "" {
		t.Error(diff)
	}
	for _, s := range specs {
		got := created[s.Name]
		if got.ID == ([16]byte{}) || got.Partitions != s.Partitions || got.TombstoneRetention != 24*time.Hour || len(got.Notes) != 0 {
			t.Errorf("%s: %+v", s.Name, got)
		}
		if id, err := k.reader.TopicID(t.Context(), s.Name); err != nil || id != got.ID {
			t.Errorf("%s: id %x, %v", s.Name, id, err)
		}
		want, _ := s.Config()
		described, err := k.adm.DescribeTopicConfigs(t.Context(), s.Name)
		if err != nil {
			t.Fatal(err)
		}
		own := map[string]string{}
		for _, c := range described[0].Configs {
			if c.Source == kmsg.ConfigSourceDynamicTopicConfig {
				own[c.Key] = c.MaybeValue()
			}
		}
		if diff := cmp.Diff(want, own); diff != "" {
			t.Errorf("%s: %s", s.Name, diff)
		}
	}
}

func TestEnsureNothing(t *testing.T) {
	t.Parallel()
	k := newKit(t, Config{})
	if topics, err := Ensure(t.Context(), k.adm, nil); err != nil || len(topics) != 0 {
		t.Error(topics, err)
	}
}

// Several instances start at once.
func TestEnsureRace(t *testing.T) {
	t.Parallel()
	k := newKit(t, Config{})
	type result struct {
		topics Topics
		err    error
	}
	results := make(chan result, 4)
	for range 4 {
		go func() {
			topics, err := Ensure(t.Context(), k.adm, []Spec{counts, windows, joined, prices, byCity})
			results <- result{topics, err}
		}()
	}
	first := <-results
	for range 3 {
		if other := <-results; other.err != nil || !cmp.Equal(first.topics, other.topics) {
			t.Errorf("%+v, want %+v", other, first)
		}
	}
	if first.err != nil {
		t.Error(first.err)
	}
}

func TestEnsureVerifies(t *testing.T) {
	tests := map[string]struct {
		spec       Spec
		partitions int32             // 0 for the right number
		config     map[string]string // of the topic that is there
		problems   []string          // in order; none means it is accepted
		remedy     string            // of the first
		note       string
	}{
		"as wanted":            {spec: counts, config: map[string]string{"cleanup.policy": "compact"}},
		"made by the broker":   {spec: counts, partitions: 1, problems: []string{"it has 1 partitions, \"counts\" needs 4", "cleanup.policy is delete"}, remedy: "kafka-topics.sh"},
		"partitions":           {spec: counts, partitions: 7, config: map[string]string{"cleanup.policy": "compact"}, problems: []string{"it has 7 partitions"}, remedy: "give the source topics 7 partitions again"},
		"also deletes":         {spec: counts, config: map[string]string{"cleanup.policy": "compact,delete"}, problems: []string{"cleanup.policy is compact,delete"}, remedy: "--entity-name app-counts-changelog --add-config 'cleanup.policy=compact'"},
		"append time":          {spec: counts, config: map[string]string{"cleanup.policy": "compact", "message.timestamp.type": "LogAppendTime"}, problems: []string{"message.timestamp.type is LogAppendTime"}, remedy: "'message.timestamp.type=CreateTime'"},
		"windows, other order": {spec: windows, config: map[string]string{"cleanup.policy": "delete,compact", "retention.ms": "90000000"}},
		"windows, longer":      {spec: windows, config: map[string]string{"cleanup.policy": "compact,delete", "retention.ms": "-1"}},
		"windows, shorter":     {spec: windows, config: map[string]string{"cleanup.policy": "compact,delete", "retention.ms": "86400000"}, problems: []string{"retention.ms is 86400000"}, remedy: "'retention.ms=90000000'"},
		"windows, by size":     {spec: windows, config: map[string]string{"cleanup.policy": "compact,delete", "retention.ms": "-1", "retention.bytes": "1000"}, problems: []string{"retention.bytes is 1000"}, remedy: "'retention.bytes=-1'"},
		"windows, kept":        {spec: windows, config: map[string]string{"cleanup.policy": "compact"}, note: "more room"},
		"windows, uncompacted": {spec: windows, config: map[string]string{"cleanup.policy": "delete", "retention.ms": "90000000"}, note: "more room"},
		"buffer compacted":     {spec: joined, config: map[string]string{"cleanup.policy": "compact,delete", "retention.ms": "90000000"}, problems: []string{"compacted away"}, remedy: "'cleanup.policy=delete'"},
		"versions, no lag":     {spec: prices, config: map[string]string{"cleanup.policy": "compact", "min.compaction.lag.ms": "0"}, problems: []string{"min.compaction.lag.ms is 0"}, remedy: "'min.compaction.lag.ms=90000000'"},
		"repartition expires":  {spec: byCity, config: map[string]string{"retention.ms": "604800000"}, problems: []string{"retention.ms is 604800000"}, remedy: "'retention.ms=-1'"},
		"repartition compacts": {spec: byCity, config: map[string]string{"cleanup.policy": "compact"}, problems: []string{"cleanup.policy is compact"}, remedy: "'cleanup.policy=delete'"},
		"other segments":       {spec: byCity, config: map[string]string{"retention.ms": "-1", "segment.bytes": "1000"}, note: "segment.bytes is 1000 instead of 52428800"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newKit(t, Config{})
			config := map[string]*string{}
			for key, value := range test.config {
				config[key] = kadm.StringPtr(value)
			}
			partitions := test.partitions
			if partitions == 0 {
				partitions = test.spec.Partitions
			}
			if _, err := k.adm.CreateTopic(t.Context(), partitions, 1, config, test.spec.Name); err != nil {
				t.Fatal(err)
			}
			topics, err := Ensure(t.Context(), k.adm, []Spec{test.spec})
			faults := topicErrors(err)
			if len(faults) != len(test.problems) {
				t.Fatalf("%v, want %q", err, test.problems)
			}
			for i, problem := range test.problems {
				if faults[i].Topic != test.spec.Name || !strings.Contains(faults[i].Problem, problem) {
					t.Errorf("%+v, want %q", faults[i], problem)
				}
			}
			if test.remedy != "" && !(strings.Contains(faults[0].Remedy, test.remedy) && strings.Contains(faults[0].Remedy, k.cluster.ListenAddrs()[0])) {
				t.Errorf("remedy %q, want %q", faults[0].Remedy, test.remedy)
			}
			if notes := topics[test.spec.Name].Notes; len(test.problems) == 0 && strings.Join(notes, ";") != test.note && !(test.note != "" && strings.Contains(notes[0], test.note)) {
				t.Errorf("notes %q, want %q", notes, test.note)
			}
			described, err := k.adm.DescribeTopicConfigs(t.Context(), test.spec.Name)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range described[0].Configs {
				if want, ok := test.config[c.Key]; ok && c.MaybeValue() != want {
					t.Errorf("%s was altered to %s", c.Key, c.MaybeValue())
				}
			}
		})
	}
}

// topicErrors are the faults that are joined in err.
func topicErrors(err error) []*TopicError {
	if one, ok := err.(*TopicError); ok {
		return []*TopicError{one}
	}
	var all []*TopicError
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, err := range joined.Unwrap() {
			all = append(all, topicErrors(err)...)
		}
	}
	return all
}

func TestEnsureRefusesSpecs(t *testing.T) {
	t.Parallel()
	k := newKit(t, Config{})
	other := counts
	other.Partitions, other.For = 5, "sums"
	set := windows
	set.Overrides = map[string]string{"cleanup.policy": "compact"}
	empty := prices
	empty.Partitions = 0
	_, err := Ensure(t.Context(), k.adm, []Spec{counts, other, set, empty, {Name: "a b", Partitions: 1}, {Name: strings.Repeat("x", 250), Partitions: 1}})
	if faults := topicErrors(err); len(faults) != 5 {
		t.Errorf("%d faults: %v", len(faults), err)
	}
	if topics, err := k.adm.ListTopics(t.Context()); err != nil || len(topics) != 0 {
		t.Errorf("topics were created all the same: %v, %v", topics.Names(), err)
	}
}

func TestEnsureCannotCreate(t *testing.T) {
	t.Parallel()
	k := newKit(t, Config{})
	s := windows
	s.Replicas = 3
	_, err := Ensure(t.Context(), k.adm, []Spec{s, counts})
	faults := topicErrors(err)
	if len(faults) != 1 || !strings.Contains(faults[0].Problem, "INVALID_REPLICATION_FACTOR") {
		t.Fatal(err)
	}
	want := fmt.Sprintf("kafka-topics.sh --bootstrap-server %s --create --topic app-windows-changelog --partitions 2 --replication-factor 3 "+
		"--config 'cleanup.policy=compact,delete' --config 'message.timestamp.type=CreateTime' --config 'retention.ms=90000000'", k.cluster.ListenAddrs()[0])
	if !strings.Contains(faults[0].Remedy, want) {
		t.Errorf("remedy %q, want %q", faults[0].Remedy, want)
	}
}

func TestEnsureMayNotRead(t *testing.T) {
	t.Parallel()
	k := newKit(t, Config{})
	k.create(counts.Name, counts.Partitions, nil)
	k.cluster.ControlKey(int16(kmsg.DescribeConfigs), func(req kmsg.Request) (kmsg.Response, error, bool) {
		resp := req.ResponseKind().(*kmsg.DescribeConfigsResponse)
		r := kmsg.NewDescribeConfigsResponseResource()
		r.ResourceType, r.ResourceName, r.ErrorCode = kmsg.ConfigResourceTypeTopic, counts.Name, kerr.TopicAuthorizationFailed.Code
		resp.Resources = append(resp.Resources, r)
		return resp, nil, true
	})
	_, err := Ensure(t.Context(), k.adm, []Spec{counts})
	if !errors.Is(err, kerr.TopicAuthorizationFailed) || !strings.Contains(err.Error(), "DESCRIBE_CONFIGS") {
		t.Error(err)
	}
}

// Brokers learn of a topic one after the other.
func TestEnsureWaitsForVisibility(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var network kfake.VirtualNetwork
		k := dialKit(t, Config{}, &network)
		asked := 0
		k.cluster.ControlKey(int16(kmsg.DescribeConfigs), func(req kmsg.Request) (kmsg.Response, error, bool) {
			if asked++; asked > 5 {
				return nil, nil, false
			}
			k.cluster.KeepControl()
			resp := req.ResponseKind().(*kmsg.DescribeConfigsResponse)
			r := kmsg.NewDescribeConfigsResponseResource()
			r.ResourceType, r.ResourceName, r.ErrorCode = kmsg.ConfigResourceTypeTopic, counts.Name, kerr.UnknownTopicOrPartition.Code
			resp.Resources = append(resp.Resources, r)
			return resp, nil, true
		})
		began := time.Now()
		if _, err := Ensure(t.Context(), k.adm, []Spec{counts}); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); asked < 5 || took < 100*time.Millisecond || took > 5*time.Second {
			t.Errorf("asked %d times in %s", asked, took)
		}
	})
}

func TestEnsureGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var network kfake.VirtualNetwork
		k := dialKit(t, Config{}, &network)
		k.cluster.ControlKey(int16(kmsg.CreateTopics), func(req kmsg.Request) (kmsg.Response, error, bool) {
			k.cluster.KeepControl()
			resp := req.ResponseKind().(*kmsg.CreateTopicsResponse)
			for _, t := range req.(*kmsg.CreateTopicsRequest).Topics {
				rt := kmsg.NewCreateTopicsResponseTopic()
				rt.Topic = t.Topic // says yes and does nothing
				resp.Topics = append(resp.Topics, rt)
			}
			return resp, nil, true
		})
		began := time.Now()
		_, err := Ensure(t.Context(), k.adm, []Spec{counts})
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), counts.Name) || time.Since(began) > 2*time.Minute {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
	})
}
