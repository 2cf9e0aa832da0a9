package soak

import (
	"time"

	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/store"
	"github.com/kolkstreams/kolk/topology"
	"github.com/kolkstreams/kolk/window"
)

// How long the stores keep what they have. Dedup keeps up to three times its horizon, the others a little more than what is said here.
const (
	windowKept = 2 * time.Hour
	horizon    = time.Hour
	gap        = 10 * time.Minute
	longest    = time.Hour // of a session
	ttl        = 2 * time.Hour

	// retention is when all of them have forgotten something.
	retention = 4 * time.Hour
)

// jitter is by how much records are out of order. Windows and sessions wait for them.
const jitter = time.Minute

var (
	events  = topology.NewTopic("events", serde.String(), serde.String())
	results = topology.NewTopic("results", serde.String(), serde.String())
)

// build declares a store of each kind. Keys are users, values are ids.
func build() (*topology.Topology, error) {
	b := topology.New()
	in := b.Stream(events)
	in.Deduplicate("seen", horizon, func(_, id string) string { return id }).To(results)
	byUser := in.GroupByKey()
	tumbling := window.Tumbling(10 * time.Minute).Grace(2 * jitter).Retain(windowKept)
	byUser.Windowed(tumbling).Count("windows").Final().
		To(topology.NewTopic("counts", window.KeySerde(serde.String(), tumbling), serde.Int64()))
	sessions := window.Sessions(gap).Grace(2 * jitter).MaxLength(longest)
	byUser.Sessions(sessions).Count("sessions").Final().
		To(topology.NewTopic("visits", window.SessionKeySerde(serde.String()), serde.Int64()))
	byUser.Reduce("latest", store.TTL(ttl), func(_, id string) string { return id }).
		To(topology.NewTopic("users", serde.String(), serde.String()))
	return b.Build()
}
