package chaos

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/store"
	"github.com/kolkstreams/kolk/topology"
	"github.com/twmb/franz-go/pkg/kgo"
)

// How many rows the tables of the foreign-key join have: a customer has some orders, so that an update of one meets several subscriptions.
const (
	foreignOrders    = 4000
	foreignCustomers = 1000
	strangers        = 100 // customers of orders that never become rows
)

// foreign joins orders with their customers by foreign key. Rows of both come, change and go all the while; an order changes its customer, has none, or one that does not exist.
//
//	orders, customers -> join      -> matched -> count and sum by customer -> totals
//	                  -> left join -> all
//
// The results depend on the last rows only, but on the way every update crosses two topics, and one of a customer as often as there are orders. The totals take old
// rows out and put new ones in: an update that is lost or doubled stays in them for ever.
type foreign struct {
	app     string
	random  *rand.Rand
	sent    int64             // records; each row has the number of its record as version
	latest  map[string]string // customers of the orders that were sent and not deleted
	touches int

	orders    map[string]order // the batch
	customers map[string]customer
}

type (
	order struct {
		Version  int64
		Customer string `json:",omitempty"`
	}
	customer struct{ Version int64 }
	// placed is an order with its customer; Version is 0 if there is none.
	placed struct {
		Order    order
		Customer customer
	}
	total struct{ Orders, Sum int64 }
)

func addPlaced(_ string, p placed, t total) total {
	return total{t.Orders + 1, t.Sum + p.Order.Version + p.Customer.Version}
}

func removePlaced(_ string, p placed, t total) total {
	return total{t.Orders - 1, t.Sum - p.Order.Version - p.Customer.Version}
}

func newForeign(application string, seed uint64) (Job, error) {
	return &foreign{app: application, random: rand.New(rand.NewPCG(seed, 3)), latest: make(map[string]string),
		orders: make(map[string]order), customers: make(map[string]customer)}, nil
}

func (f *foreign) topic(name string) string { return f.app + "-" + name }

func (f *foreign) Inputs() []string { return []string{f.topic("orders"), f.topic("customers")} }

func (f *foreign) Outputs() map[string]Output {
	return map[string]Output{
		f.topic("matched"): {Versions, f.topic("matching-result-changelog")},
		f.topic("all"):     {Rule: Versions},
		f.topic("totals"):  {Totals, f.topic("by-customer-changelog")},
	}
}

func (f *foreign) Internal() (all []string) {
	for _, join := range []string{"matching", "all"} {
		all = append(all, f.topic(join+"-subscription-registration-topic"), f.topic(join+"-subscription-response-topic"))
	}
	return append(all, f.topic("by-customer-repartition"))
}

func (f *foreign) Tasks(partitions int32) int { return 3 * int(partitions) }

func (f *foreign) Topology(m Meter) (*topology.Topology, error) {
	text, rows, totals := serde.String(), serde.JSON[placed](), serde.JSON[total]()
	b := topology.New()
	b.Default(rows)
	customers := b.Table("customers", topology.NewTopic(f.topic("customers"), text, serde.JSON[customer]()), store.FiniteKeys(foreignCustomers))
	orders := b.Table("orders", topology.NewTopic(f.topic("orders"), text, serde.JSON[order]()), store.FiniteKeys(foreignOrders))
	by := func(_ string, o order) (string, bool) { return o.Customer, o.Customer != "" }

	matched := orders.JoinForeign("matching", customers, by, func(o order, c customer) placed { return placed{o, c} })
	matched.To(output(f.topic("matched"), text, rows, m, 0))
	matched.GroupBy(func(_ string, p placed) (string, placed) { return p.Order.Customer, p }).
		Aggregate("by-customer", totals, store.FiniteKeys(foreignCustomers), addPlaced, removePlaced).
		To(output(f.topic("totals"), text, totals, m, 2))

	orders.LeftJoinForeign("all", customers, by, func(o order, c *customer) placed {
		if c == nil {
			return placed{Order: o}
		}
		return placed{o, *c}
	}).To(output(f.topic("all"), text, rows, m, 1))
	return b.Build()
}

func (f *foreign) First() []*kgo.Record { return nil }

func (f *foreign) Next() *kgo.Record {
	switch n := f.random.IntN(100); {
	case n < 64:
		return f.order(f.random.IntN(foreignOrders), customerName(f.random.IntN(foreignCustomers+strangers)))
	case n < 67:
		return f.order(f.random.IntN(foreignOrders), "")
	case n < 75:
		id := orderName(f.random.IntN(foreignOrders))
		delete(f.latest, id)
		return f.null("orders", id)
	case n < 95:
		return f.customer(f.random.IntN(foreignCustomers))
	}
	return f.null("customers", customerName(f.random.IntN(foreignCustomers)))
}

func orderName(n int) string    { return "o" + strconv.Itoa(n) }
func customerName(n int) string { return "c" + strconv.Itoa(n) }

func (f *foreign) order(n int, customer string) *kgo.Record {
	f.sent++
	f.latest[orderName(n)] = customer
	return jsonRecord(f.topic("orders"), orderName(n), order{f.sent, customer}, time.Now())
}

func (f *foreign) customer(n int) *kgo.Record {
	f.sent++
	return jsonRecord(f.topic("customers"), customerName(n), customer{f.sent}, time.Now())
}

func (f *foreign) null(name, key string) *kgo.Record {
	f.sent++
	return &kgo.Record{Topic: f.topic(name), Key: []byte(key), Timestamp: time.Now()}
}

// Touch updates every other customer, and every other order, those of before left out. An order whose customer alone is new shows whether the subscription was there,
// one that alone is new whether the customer was.
func (f *foreign) Touch() (all []*kgo.Record) {
	for n := f.touches % 2; n < foreignCustomers; n += 2 {
		all = append(all, f.customer(n))
	}
	for n := f.touches % 2; n < foreignOrders; n += 2 {
		if customer, ok := f.latest[orderName(n)]; ok {
			all = append(all, f.order(n, customer))
		}
	}
	f.touches++
	return all
}

func (f *foreign) Last() []*kgo.Record { return nil }

func (f *foreign) Sent() int64 { return f.sent }

func (f *foreign) Add(r *kgo.Record) error {
	key := string(r.Key)
	if r.Topic == f.topic("orders") {
		return addRow(f.orders, key, r.Value)
	}
	return addRow(f.customers, key, r.Value)
}

func addRow[V any](rows map[string]V, key string, value []byte) error {
	if value == nil {
		delete(rows, key)
		return nil
	}
	var v V
	if err := json.Unmarshal(value, &v); err != nil {
		return fmt.Errorf("row %s: %w", key, err)
	}
	rows[key] = v
	return nil
}

func (f *foreign) Want() map[Row]Value {
	want := make(map[Row]Value)
	totals := make(map[string]total)
	for id, o := range f.orders {
		c, ok := f.customers[o.Customer]
		want[Row{f.topic("all"), id}] = Value{o.Version, c.Version}
		if ok {
			want[Row{f.topic("matched"), id}] = Value{o.Version, c.Version}
			totals[o.Customer] = addPlaced("", placed{o, c}, totals[o.Customer])
		}
	}
	for by, t := range totals {
		want[Row{f.topic("totals"), by}] = Value{t.Orders, t.Sum}
	}
	return want
}

func (f *foreign) Row(output string, key, value []byte) (row Row, v Value, err error) {
	row = Row{output, string(key)}
	if value == nil {
		return row, v, nil
	}
	if output == f.topic("totals") {
		var t total
		err = json.Unmarshal(value, &t)
		return row, Value{t.Orders, t.Sum}, err
	}
	var p placed
	err = json.Unmarshal(value, &p)
	return row, Value{p.Order.Version, p.Customer.Version}, err
}

func (f *foreign) Slots() int { return 3 }

func (f *foreign) Slot(r Row) int {
	switch r.Output {
	case f.topic("matched"):
		return 0
	case f.topic("all"):
		return 1
	}
	return 2
}
