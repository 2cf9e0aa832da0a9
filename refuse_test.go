package kolk

import (
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Options that would break a guarantee are refused by their own name, whatever kind of option they are to the client.
func TestRefusedOptions(t *testing.T) {
	for name, o := range map[string]kgo.Opt{
		"ConsumerGroup":          kgo.ConsumerGroup("g"),
		"ConsumeTopics":          kgo.ConsumeTopics("t"),
		"ConsumePartitions":      kgo.ConsumePartitions(nil),
		"ConsumeRegex":           kgo.ConsumeRegex(),
		"Balancers":              kgo.Balancers(kgo.RangeBalancer()),
		"InstanceID":             kgo.InstanceID("i"),
		"SessionTimeout":         kgo.SessionTimeout(time.Second),
		"RebalanceTimeout":       kgo.RebalanceTimeout(time.Second),
		"HeartbeatInterval":      kgo.HeartbeatInterval(time.Second),
		"OnPartitionsAssigned":   kgo.OnPartitionsAssigned(nil),
		"OnPartitionsRevoked":    kgo.OnPartitionsRevoked(nil),
		"OnPartitionsLost":       kgo.OnPartitionsLost(nil),
		"BlockRebalanceOnPoll":   kgo.BlockRebalanceOnPoll(),
		"DisableAutoCommit":      kgo.DisableAutoCommit(),
		"AutoCommitInterval":     kgo.AutoCommitInterval(time.Second),
		"TransactionalID":        kgo.TransactionalID("x"),
		"TransactionTimeout":     kgo.TransactionTimeout(time.Second),
		"FetchIsolationLevel":    kgo.FetchIsolationLevel(kgo.ReadUncommitted()),
		"KeepControlRecords":     kgo.KeepControlRecords(),
		"ConsumeResetOffset":     kgo.ConsumeResetOffset(kgo.NewOffset()),
		"RecordPartitioner":      kgo.RecordPartitioner(kgo.ManualPartitioner()),
		"RequiredAcks":           kgo.RequiredAcks(kgo.LeaderAck()),
		"DisableIdempotentWrite": kgo.DisableIdempotentWrite(),
		"RecordRetries":          kgo.RecordRetries(1),
		"RecordDeliveryTimeout":  kgo.RecordDeliveryTimeout(time.Second),
		"ProduceRequestTimeout":  kgo.ProduceRequestTimeout(time.Second),
		"AllowAutoTopicCreation": kgo.AllowAutoTopicCreation(),
		"DefaultProduceTopic":    kgo.DefaultProduceTopic("t"),
		"ManualFlushing":         kgo.ManualFlushing(),
	} {
		faults := refused([]kgo.Opt{o})
		if len(faults) != 1 || !strings.Contains(faults[0].Error(), "kgo."+name+",") {
			t.Errorf("%s: refused with %v", name, faults)
		}
	}
}

func TestAllowedOptions(t *testing.T) {
	opts := []kgo.Opt{kgo.DialTLS(), kgo.FetchMaxBytes(1), kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ProducerLinger(0), kgo.ClientID("x"), kgo.WithLogger(nil)}
	if faults := refused(opts); len(faults) != 0 {
		t.Errorf("refused: %v", faults)
	}
}
