package engine

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"github.com/kolkstreams/kolk/internal/state"
)

// GlobalTable is a table of which every process has all rows. It belongs to no task.
type GlobalTable struct {
	ID    int // of its sub-topology, which has no tasks
	Topic string
	Node  *Node
	Store *state.Decl
	// Check makes what says what is wrong with a record's bytes; value is nil for a delete. It may ask who knows the topic's serdes, until ctx ends.
	Check func(ctx context.Context) (func(key, value []byte) error, error)
}

// Global is an open global table. It is safe for use by many goroutines.
//
// Changes come in batches, while records are being processed. A record sees the table as of a batch's end, the same one from its beginning to its
// end: so a change stays above the store until no record is under way that began before it.
type Global struct {
	Table   *GlobalTable
	check   func(key, value []byte) error
	version atomic.Int64 // of the last whole batch

	mu      sync.Mutex
	live    state.Live
	above   map[string][]change // by key, in order of version
	readers map[*GlobalReader]bool
}

type change struct {
	version int64
	value   []byte // nil is a delete
	at      int64
}

// OpenGlobal opens a global table. Env need not say more than where the rows are, and the memory. ctx is for serdes that must know their topic.
func OpenGlobal(ctx context.Context, table *GlobalTable, env state.Env) (*Global, error) {
	env.Now = func() int64 { return 0 }
	env.StreamTime = func() int64 { return -1 }
	env.Drop = func(string) {}
	check, err := table.Check(ctx)
	if err != nil {
		return nil, err
	}
	live, err := table.Store.OpenAt(ctx, table.Topic, env)
	if err != nil {
		return nil, err
	}
	return &Global{Table: table, check: check, live: live, above: make(map[string][]change), readers: make(map[*GlobalReader]bool)}, nil
}

// Check says whether a record is a row. dropped is the reason to leave it out. A record that cannot be read is an error, unless the policy is to skip it.
func (g *Global) Check(r *Record) (dropped string, err error) {
	if r.Key == nil {
		return "null_key", nil
	}
	if err := g.check(r.Key, r.Value); err != nil {
		if g.Table.Node.OnError.Kind == Skip {
			return "skipped", nil
		}
		return "", fmt.Errorf("global table %q: offset %d of topic %s: %w", g.Table.Store.Name, r.Offset, g.Table.Topic, err)
	}
	return "", nil
}

// Load takes a record before anybody reads: through the loader if there is one, which is that of an empty backend.
func (g *Global) Load(to state.Loader, r *Record) (err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	defer broken(&err)
	if to != nil {
		return g.live.Load(to, r.Key, r.Value, r.Time)
	}
	return g.live.Restore(r.Key, r.Value, r.Time)
}

// Apply takes a batch, which records that begin from now on see as a whole. It keeps the bytes.
func (g *Global) Apply(recs []Record) (err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	defer broken(&err)
	v := g.version.Load() + 1
	for i := range recs {
		r := &recs[i]
		g.above[string(r.Key)] = append(g.above[string(r.Key)], change{v, r.Value, r.Time})
	}
	g.version.Store(v)
	return g.settle()
}

// Settle moves into the store what every record under way may see.
func (g *Global) Settle() (err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	defer broken(&err)
	return g.settle()
}

func (g *Global) settle() error {
	if len(g.above) == 0 {
		return nil
	}
	seen := int64(math.MaxInt64)
	for r := range g.readers {
		seen = min(seen, r.pin.Load())
	}
	for key, list := range g.above {
		n := len(list)
		for n > 0 && list[n-1].version > seen {
			n--
		}
		if n == 0 {
			continue
		}
		last := list[n-1]
		if err := g.live.Restore([]byte(key), last.value, last.at); err != nil {
			return err
		}
		if n == len(list) {
			delete(g.above, key)
		} else {
			g.above[key] = list[n:]
		}
	}
	return nil
}

// Above is how many rows have changes that some record under way may not see yet.
func (g *Global) Above() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.above)
}

// Freeze begins a checkpoint of the store.
func (g *Global) Freeze() (batches []state.Batch, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	defer broken(&err)
	return g.live.Freeze(), nil
}

// Applied ends a checkpoint; switched makes the backend show it.
func (g *Global) Applied(switched func()) (err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	defer broken(&err)
	switched()
	g.live.Applied()
	return nil
}

// Stats is how large the table is.
func (g *Global) Stats() state.Stats {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.live.Stats()
}

// Live is the store, for readers that see to it that nothing else happens.
func (g *Global) Live() state.Live { return g.live }

// Close gives the memory back.
func (g *Global) Close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.live.Close()
}

// broken turns the panic of a store that failed into an error.
func broken(err *error) {
	switch p := recover().(type) {
	case nil:
	case state.Broken:
		*err = p
	default:
		panic(p)
	}
}

// GlobalReader reads a global table for one task.
type GlobalReader struct {
	g   *Global
	pin atomic.Int64 // the version that the record under way sees; the largest number if there is none
}

const unpinned = math.MaxInt64

// Read calls above with the encoded key that key makes, if the row has a change that is not in the store yet, and else base with the store.
func (r *GlobalReader) Read(key func() ([]byte, error), above func(value []byte, at int64), base func(state.Live)) error {
	g := r.g
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.above) > 0 {
		k, err := key()
		if err != nil {
			return err
		}
		list, pin := g.above[string(k)], r.pin.Load()
		for i := len(list) - 1; i >= 0; i-- {
			if list[i].version <= pin {
				above(list[i].value, list[i].at)
				return nil
			}
		}
	}
	base(g.live)
	return nil
}

// Global is the task's reader of a global table; nil if the process has no such table. Operators ask for it once, when they are made.
func (t *Task) Global(store string) *GlobalReader {
	g := t.env.Globals[store]
	if g == nil {
		return nil
	}
	for _, r := range t.globals {
		if r.g == g {
			return r
		}
	}
	r := &GlobalReader{g: g}
	r.pin.Store(unpinned)
	g.mu.Lock()
	g.readers[r] = true
	g.mu.Unlock()
	t.globals = append(t.globals, r)
	return r
}

// pin lets what the task reads of global tables stay as it is now, until unpin.
func (t *Task) pin() {
	for _, r := range t.globals {
		r.pin.Store(r.g.version.Load())
	}
}

func (t *Task) unpin() {
	for _, r := range t.globals {
		r.pin.Store(unpinned)
	}
}

// letGo ends the task's readers.
func (t *Task) letGo() {
	for _, r := range t.globals {
		r.g.mu.Lock()
		delete(r.g.readers, r)
		r.g.mu.Unlock()
	}
	t.globals = nil
}
