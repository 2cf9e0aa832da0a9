package kafka

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// CreateTopics creates topics that keep their records whatever their age, replicated as widely as the cluster's default, and returns when every node knows
// them: the controller's answer alone comes before that.
func (c *Cluster) CreateTopics(ctx context.Context, partitions int32, topics ...string) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.up()...))
	if err != nil {
		return err
	}
	defer cl.Close()
	forever := "-1"
	resp, err := kadm.NewClient(cl).CreateTopics(ctx, partitions, -1, map[string]*string{"retention.ms": &forever}, topics...)
	if err == nil {
		err = resp.Error()
	}
	if err != nil {
		return fmt.Errorf("create topics %v: %w", topics, err)
	}
	req := kmsg.NewPtrMetadataRequest()
	for _, name := range topics {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = kmsg.StringPtr(name)
		req.Topics = append(req.Topics, t)
	}
	for _, node := range cl.SeedBrokers() {
		for {
			answer, err := node.Request(ctx, req)
			if err == nil && led(answer.(*kmsg.MetadataResponse), int(partitions)) {
				break
			}
			select {
			case <-time.After(poll):
			case <-ctx.Done():
				return fmt.Errorf("topics %v are created, and not known to all nodes: %w (last answer: %v)", topics, ctx.Err(), err)
			}
		}
	}
	return nil
}

// led is whether all topics of an answer have their partitions, each with a leader.
func led(answer *kmsg.MetadataResponse, partitions int) bool {
	for _, t := range answer.Topics {
		if t.ErrorCode != 0 || len(t.Partitions) != partitions {
			return false
		}
		for _, p := range t.Partitions {
			if p.Leader < 0 {
				return false
			}
		}
	}
	return true
}

// up are the addresses of the nodes that run, as far as this is known.
func (c *Cluster) up() (addrs []string) {
	for _, n := range c.nodes {
		if n.Pid() != 0 {
			addrs = append(addrs, n.Addr)
		}
	}
	if len(addrs) == 0 {
		return c.seeds
	}
	return addrs
}
