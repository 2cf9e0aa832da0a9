package changelog

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Old is a changelog whose records bear times that lie so far back that its configuration no longer protects them.
type Old struct {
	// Topic is the changelog, Store the name of its store.
	Topic, Store string
	// Kind decides what protects the records: retention.ms of a Windowed or JoinBuffer changelog, min.compaction.lag.ms of a Versioned one.
	Kind Kind
	// At is the time that the store has come to, for messages.
	At time.Time
}

// setting is the configuration that protects records of any age.
func (o Old) setting() (key, value string) {
	if o.Kind == Versioned {
		return compactionLag, strconv.FormatInt(1<<63-1, 10)
	}
	return retentionMS, unlimited
}

// Protect alters the topic so that the broker does not delete, or compact away, what the store still needs, whatever its age: brokers go by the times of
// records and by their own clock. It is the only thing that kolk alters of a topic. It returns when the leaders of all partitions know of it, so records that are written
// afterwards are safe. Calling it again changes nothing.
//
// The error is a [TopicError] with the command to run if the alteration is refused; others may pass.
func Protect(ctx context.Context, cl *kgo.Client, o Old) error {
	meta := kmsg.NewPtrMetadataRequest()
	of := kmsg.NewMetadataRequestTopic()
	of.Topic = kmsg.StringPtr(o.Topic)
	meta.Topics = append(meta.Topics, of)
	found, err := meta.RequestWith(ctx, cl)
	if err != nil {
		return fmt.Errorf("look up the leaders of %s: %w", o.Topic, err)
	}
	leaders := make(map[int32]bool)
	for _, t := range found.Topics {
		if err := codeError(t.ErrorCode); err != nil {
			return fmt.Errorf("look up the leaders of %s: %w", o.Topic, err)
		}
		for _, p := range t.Partitions {
			leaders[p.Leader] = true
		}
	}
	if err := o.alter(ctx, cl, found); err != nil {
		return err
	}
	for leader := range leaders {
		for {
			known, err := o.known(ctx, cl, leader)
			if err != nil {
				return err
			}
			if known {
				break
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("waiting until broker %d knows the new configuration of %s: %w", leader, o.Topic, context.Cause(ctx))
			case <-time.After(ensureFirstGap):
			}
		}
	}
	return nil
}

func (o Old) alter(ctx context.Context, cl *kgo.Client, found *kmsg.MetadataResponse) error {
	key, value := o.setting()
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	res := kmsg.NewIncrementalAlterConfigsRequestResource()
	res.ResourceType, res.ResourceName = kmsg.ConfigResourceTypeTopic, o.Topic
	c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	c.Name, c.Op, c.Value = key, kmsg.IncrementalAlterConfigOpSet, kmsg.StringPtr(value)
	res.Configs = append(res.Configs, c)
	req.Resources = append(req.Resources, res)
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return fmt.Errorf("set %s of %s: %w", key, o.Topic, err)
	}
	for _, r := range resp.Resources {
		err := codeError(r.ErrorCode)
		if err == nil {
			continue
		}
		if !final(err) {
			return fmt.Errorf("set %s of %s: %w", key, o.Topic, err)
		}
		if r.ErrorMessage != nil && *r.ErrorMessage != "" {
			err = fmt.Errorf("%w: %s", err, *r.ErrorMessage)
		}
		e := ensurer{broker: "BROKER:9092"}
		if len(found.Brokers) > 0 {
			e.broker = net.JoinHostPort(found.Brokers[0].Host, strconv.Itoa(int(found.Brokers[0].Port)))
		}
		return &TopicError{o.Topic, fmt.Sprintf("event times of store %q are at %s, so far back that the broker would remove records that it still needs, and %s cannot be set to %s: %v",
			o.Store, o.At.UTC().Format(time.RFC3339), key, value, err), "allow this client ALTER_CONFIGS on the topic, or " + e.commandFor(o.Topic, key, value)}
	}
	return nil
}

// known says whether a broker has the new value.
func (o Old) known(ctx context.Context, cl *kgo.Client, broker int32) (bool, error) {
	key, value := o.setting()
	req := kmsg.NewPtrDescribeConfigsRequest()
	res := kmsg.NewDescribeConfigsRequestResource()
	res.ResourceType, res.ResourceName, res.ConfigNames = kmsg.ConfigResourceTypeTopic, o.Topic, []string{key}
	req.Resources = append(req.Resources, res)
	resp, err := cl.Broker(int(broker)).RetriableRequest(ctx, req)
	if err != nil {
		return false, fmt.Errorf("read %s of %s at broker %d: %w", key, o.Topic, broker, err)
	}
	for _, r := range resp.(*kmsg.DescribeConfigsResponse).Resources {
		if err := codeError(r.ErrorCode); err != nil {
			return false, fmt.Errorf("read %s of %s at broker %d: %w", key, o.Topic, broker, err)
		}
		for _, c := range r.Configs {
			if c.Name == key && c.Value != nil && *c.Value == value {
				return true, nil
			}
		}
	}
	return false, nil
}
