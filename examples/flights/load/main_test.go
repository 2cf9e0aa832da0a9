package main

import (
	"context"
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Topics are filled when they are made, and only then.
func TestLoad(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	client, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for _, others := range [][]string{{"one"}, {"one", "two"}} {
		if err := load(t.Context(), client, others...); err != nil {
			t.Fatal(err)
		}
		ends, err := kadm.NewClient(client).ListEndOffsets(t.Context(), append(others, "flights", "airports")...)
		if err != nil {
			t.Fatal(err)
		}
		got := make(map[string]int64)
		ends.Each(func(o kadm.ListedOffset) { got[o.Topic] += o.Offset })
		if err := ends.Error(); err != nil || len(got) != 2+len(others) || got["flights"] != 20_000 || got["airports"] != 3376 || got["one"] != 0 {
			t.Errorf("records by topic %v, %v", got, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := load(ctx, client); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that it was told to stop", err)
	}
}
