package changelog

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The first rows are what Kafka Streams creates for the same stores.
func TestConfigOfEachKind(t *testing.T) {
	tests := map[string]struct {
		spec Spec
		want map[string]string
	}{
		"key-value": {Spec{Kind: KeyValue}, map[string]string{"cleanup.policy": "compact", "message.timestamp.type": "CreateTime"}},
		"windowed count of 60 s without grace": {Spec{Kind: Windowed, Retention: time.Minute},
			map[string]string{"cleanup.policy": "compact,delete", "retention.ms": "86460000", "message.timestamp.type": "CreateTime"}},
		"join buffer of 120 s": {Spec{Kind: JoinBuffer, Retention: 2 * time.Minute},
			map[string]string{"cleanup.policy": "delete", "retention.ms": "86520000", "message.timestamp.type": "CreateTime"}},
		"versioned, an hour of history": {Spec{Kind: Versioned, Retention: time.Hour},
			map[string]string{"cleanup.policy": "compact", "min.compaction.lag.ms": "90000000", "message.timestamp.type": "CreateTime"}},
		"repartition": {Spec{Kind: RepartitionTopic},
			map[string]string{"cleanup.policy": "delete", "retention.ms": "-1", "segment.bytes": "52428800", "message.timestamp.type": "CreateTime"}},
		"overrides win over common, common over defaults": {
			Spec{Kind: RepartitionTopic, Common: map[string]string{"segment.bytes": "1", "min.insync.replicas": "2", "retention.bytes": "-1"},
				Overrides: map[string]string{"min.insync.replicas": "3"}},
			map[string]string{"cleanup.policy": "delete", "retention.ms": "-1", "segment.bytes": "1", "min.insync.replicas": "3", "retention.bytes": "-1", "message.timestamp.type": "CreateTime"}},
		"longer retention": {Spec{Kind: Windowed, Retention: time.Minute, Overrides: map[string]string{"retention.ms": "60000"}},
			map[string]string{"cleanup.policy": "compact,delete", "retention.ms": "60000", "message.timestamp.type": "CreateTime"}},
		"retention for ever": {Spec{Kind: Windowed, Retention: time.Minute, Common: map[string]string{"retention.ms": "-1"}},
			map[string]string{"cleanup.policy": "compact,delete", "retention.ms": "-1", "message.timestamp.type": "CreateTime"}},
		"longest retention": {Spec{Kind: JoinBuffer, Retention: math.MaxInt64},
			map[string]string{"cleanup.policy": "delete", "retention.ms": "9223458436854", "message.timestamp.type": "CreateTime"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := test.spec.Config()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestConfigRefuses(t *testing.T) {
	tests := []struct {
		kind  Kind
		key   string
		value string
		own   bool // as an override; else for all topics
	}{
		{KeyValue, "cleanup.policy", "compact", true},
		{Windowed, "cleanup.policy", "delete", false},
		{KeyValue, "message.timestamp.type", "LogAppendTime", true},
		{KeyValue, "retention.ms", "1000", false},
		{Windowed, "retention.ms", "59999", true},
		{Windowed, "retention.ms", "soon", true},
		{JoinBuffer, "retention.bytes", "1000", true},
		{RepartitionTopic, "retention.bytes", "1000", true},
		{Versioned, "min.compaction.lag.ms", "1", true},
		{Versioned, "min.compaction.lag.ms", "-1", false},
	}
	for _, test := range tests {
		s := Spec{Kind: test.kind, Retention: time.Minute, For: "counts"}
		set := map[string]string{test.key: test.value}
		if test.own {
			s.Overrides = set
		} else {
			s.Common = set
		}
		if _, err := s.Config(); err == nil || !strings.Contains(err.Error(), test.key) {
			t.Errorf("%s, %s=%s: %v", test.kind, test.key, test.value, err)
		}
	}
	both := Spec{Common: map[string]string{"cleanup.policy": "x"}, Overrides: map[string]string{"message.timestamp.type": "y"}}
	if _, err := both.Config(); err == nil || strings.Count(err.Error(), "correctness") != 2 {
		t.Errorf("not all faults at once: %v", err)
	}
}
