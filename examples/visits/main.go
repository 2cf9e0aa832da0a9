// Visits makes visits of clicks: how much does a visitor see, and buy, before he goes?
//
// The problem: nobody says good-bye. A visit is over when nothing has come of its visitor for a while, here half an hour, so it can be as short as one click or last a day. That is
// a session. A click that comes late may close the gap between two sessions, which then become one: hence merge, beside the function that adds a click.
//
// Some visitors never pause: robots. MaxLength cuts their sessions after twelve hours, or their state would grow and they would never come out.
//
// Each visit comes out once, when it is over (Final), and then its state is gone.
//
// It needs the topics shop-clicks and visits.
package main

import (
	"cmp"
	"context"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/kolkstreams/kolk"
	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/topology"
	"github.com/kolkstreams/kolk/window"
)

type (
	// click is a page that was shown, and what was bought there, if anything was.
	click struct {
		Page  string
		Cents int64
	}
	// visit is the sum of some clicks; its key says who it was, from when to when.
	visit struct{ Pages, Cents int64 }
)

var (
	pauses = window.Sessions(30 * time.Minute).Grace(5 * time.Minute).MaxLength(12 * time.Hour)

	clicks = topology.NewTopic("shop-clicks", serde.String(), serde.JSON[click]()) // by visitor
	visits = topology.NewTopic("visits", window.SessionKeySerde(serde.String()), serde.JSON[visit]())
)

func add(_ string, c click, v visit) visit { return visit{v.Pages + 1, v.Cents + c.Cents} }

// merge makes one visit of two.
func merge(_ string, earlier, later visit) visit {
	return visit{earlier.Pages + later.Pages, earlier.Cents + later.Cents}
}

func sessions() (*topology.Topology, error) {
	b := topology.New()
	b.Stream(clicks).
		GroupByKey().
		Sessions(pauses).
		Aggregate("open-visits", serde.JSON[visit](), add, merge).
		Final().
		To(visits)
	return b.Build()
}

func main() {
	top, err := sessions()
	if err != nil {
		log.Fatal(err)
	}
	app, err := kolk.New(top, kolk.Config{
		Application: "visits",
		Brokers:     []string{cmp.Or(os.Getenv("KAFKA"), "localhost:9092")},
		StateDir:    "state",
	})
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := app.Run(ctx); err != nil {
		log.Fatal(err)
	}
}
