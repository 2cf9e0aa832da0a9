package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/kolkstreams/kolk/examples/flights/data"
	"github.com/kolkstreams/kolk/examples/flights/job"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// cluster is where the demo keeps its topics.
type cluster struct {
	adm         *kadm.Client
	addr        string
	application string
}

// ping asks whether there is a broker.
func (c cluster) ping(ctx context.Context, client *kgo.Client) error {
	ctx, stop := context.WithTimeoutCause(ctx, answer, fmt.Errorf("no answer within %v", answer))
	defer stop()
	return c.explain(ctx, client.Ping(ctx))
}

// explain adds to an error what it is about, and says why if it is only that ctx has ended.
func (c cluster) explain(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return fmt.Errorf("kafka at %s: %w", c.addr, err)
}

// fill makes the topics and writes the data into them.
func (c cluster) fill(ctx context.Context, client *kgo.Client, topics job.Topics, flights []data.Flight, airports []data.Airport) error {
	ctx, stop := context.WithTimeoutCause(ctx, answer, fmt.Errorf("no answer within %v", answer))
	defer stop()
	err := job.Create(ctx, c.adm, topics, partitions)
	if err == nil {
		err = job.Produce(ctx, client, topics, flights, airports)
	}
	return c.explain(ctx, err)
}

// cleanUp deletes the application's topics and its group, also if the demo was interrupted.
func (c cluster) cleanUp(out io.Writer) error {
	ctx, stop := context.WithTimeout(context.Background(), answer)
	defer stop()
	all, err := c.adm.ListTopics(ctx)
	if err != nil {
		return fmt.Errorf("find the demo's topics: %w", err)
	}
	var names []string
	for _, name := range all.Names() {
		if strings.HasPrefix(name, c.application+"-") {
			names = append(names, name)
		}
	}
	var faults []error
	if len(names) > 0 {
		deleted, err := c.adm.DeleteTopics(ctx, names...)
		faults = append(faults, err, deleted.Error())
	}
	group, err := c.adm.DeleteGroup(ctx, c.application)
	if err == nil {
		err = group.Err
	}
	if !errors.Is(err, kerr.GroupIDNotFound) { // it never came to be
		faults = append(faults, err)
	}
	if err := errors.Join(faults...); err != nil {
		return fmt.Errorf("delete topics and group of %s: %w", c.application, err)
	}
	fmt.Fprintf(out, "deleted %d topics and the group of application %s\n", len(names), c.application)
	return nil
}
