package kolk

import (
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A transaction that is nobody's to end holds the offset of an input: the task waits, health says for what, and it starts as soon as the transaction is gone.
func TestOffsetsAreHeld(t *testing.T) {
	inWorld(t, map[string]int32{"words": 1, "totals": 1}, func(w *world) {
		r := w.start(counting(), w.config("app")).ready()
		w.send("words", "a=")
		w.settled("app", "words")
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}

		other, err := kgo.NewClient(kgo.SeedBrokers(w.fake.ListenAddrs()...), kgo.Dialer(w.net.DialContext), kgo.TransactionalID("somebody-else"), kgo.TransactionTimeout(10*time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		id, epoch, err := other.ProducerID(w.t.Context())
		if err != nil {
			t.Fatal(err)
		}
		check := func(code int16, err error) {
			t.Helper()
			if err == nil {
				err = kerr.ErrorForCode(code)
			}
			if err != nil {
				t.Error(err)
			}
		}
		add := kmsg.NewPtrAddOffsetsToTxnRequest()
		add.TransactionalID, add.ProducerID, add.ProducerEpoch, add.Group = "somebody-else", id, epoch, "app"
		added, err := add.RequestWith(w.t.Context(), other)
		check(added.ErrorCode, err)
		commit := kmsg.NewPtrTxnOffsetCommitRequest()
		commit.TransactionalID, commit.ProducerID, commit.ProducerEpoch, commit.Group, commit.Generation = "somebody-else", id, epoch, "app", -1
		topic := kmsg.NewTxnOffsetCommitRequestTopic()
		details, err := w.adm.ListTopics(w.t.Context(), "words")
		if err != nil {
			t.Fatal(err)
		}
		topic.Topic, topic.TopicID = "words", details["words"].ID
		part := kmsg.NewTxnOffsetCommitRequestTopicPartition()
		part.Offset = 0
		topic.Partitions = append(topic.Partitions, part)
		commit.Topics = append(commit.Topics, topic)
		committed, err := commit.RequestWith(w.t.Context(), other)
		check(committed.Topics[0].Partitions[0].ErrorCode, err)

		r = w.start(counting(), w.config("app"))
		w.wait(time.Minute)
		h := r.app.Health()
		if h.Ready || len(h.Notices) != 1 || !strings.Contains(h.Notices[0].Problem, "transaction that does not end") {
			t.Errorf("ready: %v, notices %v", h.Ready, h.Notices)
		}
		end := kmsg.NewPtrEndTxnRequest()
		end.TransactionalID, end.ProducerID, end.ProducerEpoch = "somebody-else", id, epoch
		ended, err := end.RequestWith(w.t.Context(), other)
		check(ended.ErrorCode, err)
		r.ready()
		if n := r.app.Health().Notices; len(n) != 0 {
			t.Errorf("notices %v", n)
		}
	})
}
