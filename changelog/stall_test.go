package changelog

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// An open transaction that nobody ends: the hook is called after 300 ms and again, and the restore gives up after its timeout, all by the virtual clock.
func TestStalledThenTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var network kfake.VirtualNetwork
		var at []time.Duration
		var began time.Time
		k := dialKit(t, Config{Timeout: time.Second, Stalled: func(_ context.Context, topic string, partition int32, position, end int64) {
			at = append(at, time.Since(began))
			if topic != logTopic || partition != 0 || position != 1 || end != 2 {
				t.Errorf("stalled at %s/%d %d of %d", topic, partition, position, end)
			}
		}}, &network)
		k.create(logTopic, 1, nil)
		k.produce(k.producer(""), row("a", "1"))
		tx := k.producer("tx")
		k.begin(tx, row("b", "1"))
		began = time.Now()
		s := newTable()
		next, err := k.reader.Restore(t.Context(), Part{Topic: logTopic, End: 2}, s.apply, nil)
		if !errors.Is(err, ErrStalled) || next != 1 || s.rows["a"] != "1" {
			t.Errorf("next %d, %v", next, err)
		}
		for _, part := range []string{logTopic + "/0", "at 1 of 2", "transaction is open"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q does not say %q", err, part)
			}
		}
		if took := time.Since(began); took < time.Second || took > 1100*time.Millisecond {
			t.Errorf("gave up after %s", took)
		}
		if len(at) != 3 || at[0] < 300*time.Millisecond || at[0] > 310*time.Millisecond {
			t.Errorf("the hook was called after %v", at)
		}
		k.end(tx, kgo.TryAbort)
	})
}

// The hook's owner ends the transaction, as the fence of a dead predecessor does, and the restore goes on.
func TestStalledHookUnblocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var network kfake.VirtualNetwork
		var k *kit
		k = dialKit(t, Config{Stalled: func(ctx context.Context, _ string, _ int32, _, _ int64) {
			fence := k.producer("dead")
			if _, _, err := fence.ProducerID(ctx); err != nil {
				t.Error(err)
			}
		}}, &network)
		k.create(logTopic, 1, nil)
		dead := k.producer("dead")
		k.begin(dead, row("a", "bad"))
		k.produce(k.producer(""), row("b", "1"))
		began := time.Now()
		k.restore(FromStart, map[string]string{"b": "1"})
		if took := time.Since(began); took > 500*time.Millisecond {
			t.Errorf("took %s", took)
		}
	})
}

// A store that is slow is not a stalled restore.
func TestSlowApplyIsNoStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var network kfake.VirtualNetwork
		k := dialKit(t, Config{FetchBytes: 1, Timeout: time.Second, Stalled: func(context.Context, string, int32, int64, int64) { t.Error("stalled") }}, &network)
		k.create(logTopic, 2, nil)
		client := k.producer("")
		for i := range 6 {
			r := row("a", strings.Repeat("x", 900_000))
			r.Partition = int32(i % 2)
			k.produce(client, r)
		}
		done := make(chan error, 2)
		for p := range int32(2) { // both share a single slot, so each waits for the other's store as well
			go func() {
				_, err := k.reader.Restore(t.Context(), Part{Topic: logTopic, Partition: p, End: 3}, func([]Record) error {
					<-time.After(5 * time.Second)
					return nil
				}, nil)
				done <- err
			}()
		}
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	})
}

// Errors that pass are waited for, at a decent pace; the last one is named when the restore gives up.
func TestBrokerErrors(t *testing.T) {
	for _, code := range []*kerr.Error{kerr.NotLeaderForPartition, kerr.UnknownTopicOrPartition, kerr.LeaderNotAvailable, kerr.OffsetOutOfRange, kerr.UnknownTopicID, kerr.KafkaStorageError} {
		t.Run(code.Message, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var network kfake.VirtualNetwork
				k := dialKit(t, Config{Timeout: 10 * time.Second}, &network)
				k.create(logTopic, 1, nil)
				k.produce(k.producer(""), row("a", "1"))
				asked := 0
				fail := func(times int) {
					asked = 0
					k.cluster.ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
						if asked++; asked > times {
							k.cluster.DropControl()
							return nil, nil, false
						}
						k.cluster.KeepControl()
						return fetchError(req.(*kmsg.FetchRequest), code), nil, true
					})
				}
				fail(3)
				k.restore(0, map[string]string{"a": "1"})
				fail(1 << 30)
				_, err := k.reader.Restore(t.Context(), Part{Topic: logTopic, End: 1}, newTable().apply, nil)
				if !errors.Is(err, ErrStalled) || !errors.Is(err, code) {
					t.Error(err)
				}
				if asked > 30 {
					t.Errorf("asked %d times in 10 s", asked)
				}
			})
		})
	}
}

func TestBrokerErrorThatStays(t *testing.T) {
	t.Parallel()
	k := newKit(t, Config{})
	k.create(logTopic, 1, nil)
	k.produce(k.producer(""), row("a", "1"))
	k.cluster.ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		return fetchError(req.(*kmsg.FetchRequest), kerr.TopicAuthorizationFailed), nil, true
	})
	_, err := k.reader.Restore(t.Context(), Part{Topic: logTopic, End: 1}, newTable().apply, nil)
	if !errors.Is(err, kerr.TopicAuthorizationFailed) || errors.Is(err, ErrStalled) {
		t.Error(err)
	}
}

func fetchError(req *kmsg.FetchRequest, code *kerr.Error) *kmsg.FetchResponse {
	resp := req.ResponseKind().(*kmsg.FetchResponse)
	for _, t := range req.Topics {
		rt := kmsg.NewFetchResponseTopic()
		rt.Topic, rt.TopicID = t.Topic, t.TopicID
		for _, p := range t.Partitions {
			rp := kmsg.NewFetchResponseTopicPartition()
			rp.Partition, rp.ErrorCode = p.Partition, code.Code
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}

// Connections are cut and leaders move while a restore runs.
func TestBrokerFaultsWhileRestoring(t *testing.T) {
	t.Parallel()
	k := newKit(t, Config{FetchBytes: 1}, kfake.NumBrokers(3))
	k.create(logTopic, 1, nil)
	client := k.producer("")
	want := map[string]string{}
	for i := range 8 {
		key, value := fmt.Sprint(i), strings.Repeat("x", 900_000)
		want[key] = value
		k.produce(client, row(key, value))
	}
	asked := 0
	k.cluster.ControlKey(int16(kmsg.Fetch), func(kmsg.Request) (kmsg.Response, error, bool) {
		if asked++; asked > 6 {
			return nil, nil, false
		}
		k.cluster.KeepControl()
		if asked%2 == 0 {
			return nil, errors.New("cut"), true
		}
		return nil, nil, false
	})
	s := newTable()
	next, err := k.reader.Restore(t.Context(), Part{Topic: logTopic, End: 8}, func(rs []Record) error {
		leader := k.cluster.LeaderFor(logTopic, 0)
		return errors.Join(s.apply(rs), k.cluster.MoveTopicPartition(logTopic, 0, (leader+1)%3))
	}, nil)
	if err != nil || next != 8 || len(s.rows) != 8 || len(s.offsets) != 8 {
		t.Errorf("next %d, offsets %v, %v", next, s.offsets, err)
	}
}
