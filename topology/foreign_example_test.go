package topology_test

import (
	"fmt"
	"testing"

	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/store"
	"github.com/kolkstreams/kolk/topology"
	"github.com/kolkstreams/kolk/topology/topologytest"
)

type (
	customer struct{ Name, Country string }
	purchase struct {
		Customer string
		Cents    int64
	}
	line struct {
		Cents         int64
		Name, Country string
	}
)

var (
	customersByID = topology.NewTopic("customers", serde.String(), serde.JSON[customer]())
	purchases     = topology.NewTopic("purchases", serde.String(), serde.JSON[purchase]())
	openByCountry = topology.NewTopic("open-by-country", serde.String(), serde.Int64())
)

func purchaseOf(_ string, p purchase) (string, bool) { return p.Customer, p.Customer != "" }

// openPurchases joins each purchase with its customer, and counts them by country.
func openPurchases() (*topology.Topology, error) {
	b := topology.New()
	b.Default(serde.JSON[line]())
	customers := b.Table("customers", customersByID, store.FiniteKeys(50_000))
	b.Table("purchases", purchases, store.FiniteKeys(1_000_000)).
		JoinForeign("purchase-customer", customers, purchaseOf, func(p purchase, c customer) line { return line{p.Cents, c.Name, c.Country} }).
		GroupBy(func(id string, l line) (string, line) { return l.Country, l }).
		Count("open", store.FiniteKeys(250)).
		To(openByCountry)
	return b.Build()
}

// A customer who moves takes his purchases along.
func ExampleTable_JoinForeign() {
	top, err := openPurchases()
	if err != nil {
		fmt.Println(err)
		return
	}
	d := topologytest.New(new(testing.T), top)
	d.Input(customersByID).Send("7", customer{"Anna", "AT"})
	d.Input(purchases).Send("p1", purchase{"7", 100})
	d.Input(purchases).Send("p2", purchase{"7", 200})
	d.Input(customersByID).Send("7", customer{"Anna", "IT"})
	d.Input(purchases).SendNull("p1")
	for _, r := range d.Records("open-by-country") {
		fmt.Printf("%s=%d ", r.Key, r.Value[7])
	}
	// Output: AT=1 AT=2 AT=1 IT=1 AT=0 IT=2 IT=1
}
