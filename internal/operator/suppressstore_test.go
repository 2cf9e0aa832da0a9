package operator

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/internal/state"
	"github.com/kolkstreams/kolk/store/memstore"
)

func unhex(t *testing.T, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The bytes are those that Kafka Streams writes.
func TestWaitingFormat(t *testing.T) {
	one, two := unhex(t, "0000000000000001"), unhex(t, "0000000000000002")
	for want, w := range map[string]waiting{
		"000000000000000a 0000000000000000 00000002 696e 00000000 00000000 ffffffff ffffffff 00000008 0000000000000001 000000000000000a":                  {time: 10, topic: "in", new: one, since: 10},
		"000000000000000c 0000000000000000 00000002 696e 00000000 00000000 00000008 0000000000000001 fffffffe 00000008 0000000000000002 000000000000000c": {time: 12, topic: "in", prior: one, old: one, new: two, since: 12},
		"0000000000000014 0000000000000000 00000002 696e 00000000 00000000 00000008 0000000000000001 fffffffe ffffffff 0000000000000014":                  {time: 20, topic: "in", prior: one, old: one, since: 20},
		"0000000000000001 0000000000000007 00000001 78 00000003 00000001 00000001 68 ffffffff ffffffff 00000000 ffffffff 0000000000000002":                {time: 1, offset: 7, topic: "x", partition: 3, headers: []engine.Header{{Key: "h"}}, old: []byte{}, since: 2},
	} {
		b := w.encode(nil)
		if got := hex.EncodeToString(b); got != strings.ReplaceAll(want, " ", "") {
			t.Errorf("got %s, want %s", got, want)
		}
		back, err := parseWaiting(b)
		if err != nil || fmt.Sprintf("%#v", back) != fmt.Sprintf("%#v", w) && fmt.Sprint(back) != fmt.Sprint(w) {
			t.Errorf("got %+v, want %+v, error %v", back, w, err)
		}
		for n := range b {
			if _, err := parseWaiting(b[:n]); err == nil {
				t.Errorf("%d of %d bytes are read", n, len(b))
			}
		}
	}
}

// Rows of all versions are read. The second version's header may hide a row of the third.
func TestWaitingUpgrade(t *testing.T) {
	context := "0000000000000005 0000000000000009 00000001 78 00000002 00000000"
	change := "00000001 61 00000001 62" // old a, new b
	v3 := context + "00000001 70 00000001 61 00000001 62 0000000000000004"
	for _, c := range []struct {
		version byte
		value   string
		want    waiting
	}{
		{0, "0000000000000004" + change, waiting{time: 50, offset: 60, topic: "log", partition: 7, priorUnknown: true, old: []byte("a"), new: []byte("b"), since: 4}},
		{1, "0000000000000004" + context + "0000000a" + change, waiting{time: 5, offset: 9, topic: "x", partition: 2, priorUnknown: true, old: []byte("a"), new: []byte("b"), since: 4}},
		{2, context + "0000000a" + change + "00000001 70 0000000000000004", waiting{time: 5, offset: 9, topic: "x", partition: 2, prior: []byte("p"), old: []byte("a"), new: []byte("b"), since: 4}},
		{2, v3, waiting{time: 5, offset: 9, topic: "x", partition: 2, prior: []byte("p"), old: []byte("a"), new: []byte("b"), since: 4}},
		{3, v3, waiting{time: 5, offset: 9, topic: "x", partition: 2, prior: []byte("p"), old: []byte("a"), new: []byte("b"), since: 4}},
	} {
		value := unhex(t, c.value)
		b, err := upgradeWaiting(state.Logged{Value: value, Version: c.version, At: 50, Offset: 60, Topic: "log", Partition: 7})
		if err != nil {
			t.Errorf("version %d: %v", c.version, err)
			continue
		}
		if got, err := parseWaiting(b); err != nil || fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("version %d: got %+v, want %+v, error %v", c.version, got, c.want, err)
		}
		if _, err := upgradeWaiting(state.Logged{Value: value[:len(value)-1], Version: c.version}); err == nil {
			t.Errorf("version %d: a row that is cut is read", c.version)
		}
	}
	if _, err := upgradeWaiting(state.Logged{Version: 4}); err == nil || !strings.Contains(err.Error(), "version 4") {
		t.Errorf("error %v", err)
	}
}

// box is a store of a suppression with its backend.
type box struct {
	*Waiting
	disk *memstore.Disk
	back state.Backend
}

func openBox(disk *memstore.Disk) box {
	d := &state.Decl{Name: "s"}
	DeclareWaiting(d)
	back := disk.Open()
	return box{d.Open(state.Env{Backend: back, Budget: state.NewBudget(0)}).(*Waiting), disk, back}
}

func (b box) put(key string, since int64, new string) {
	b.write([]byte(key), &waiting{since: since, new: []byte(new)})
}

func (b box) order() string {
	var out []string
	for b.oldest() != nil {
		r := b.oldest()
		w, _ := parseWaiting(r.value)
		out = append(out, r.key+string(w.new))
		b.drop(r)
	}
	b.Rollback()
	return strings.Join(out, " ")
}

// flushed is what a commit writes.
func (b box) flushed(t *testing.T) string {
	t.Helper()
	var out []string
	if err := b.Flush(func(key, value []byte, at int64) error {
		out = append(out, fmt.Sprintf("%s %t %d", key, value != nil, at))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return strings.Join(out, ", ")
}

func TestWaitingLayers(t *testing.T) {
	disk := memstore.NewDisk()
	b := openBox(disk)
	b.put("b", 5, "1")
	b.put("a", 5, "1")
	b.put("c", 1, "1")
	b.put("b", 5, "2")
	if got := b.flushed(t); got != "b true -1, a true -1, c true -1" {
		t.Errorf("flushed %s", got)
	}
	if got := b.flushed(t); got != "" {
		t.Errorf("flushed again %s", got)
	}
	b.Committed()
	if got := b.order(); got != "c1 a1 b2" {
		t.Errorf("order %s", got)
	}
	b.put("a", 5, "9")
	batch := b.Freeze()[0] // as of the commit
	if len(batch.Rows) != 3 {
		t.Fatalf("%d rows", len(batch.Rows))
	}
	if err := b.back.Apply([]state.Batch{batch}, nil); err != nil {
		t.Fatal(err)
	}
	b.back.Switch()
	b.Applied()
	if s := b.Stats(); s.Entries != 3 || s.Dirty == 0 || s.Pending != 0 {
		t.Errorf("stats %+v", s)
	}
	b.Rollback()
	b.drop(b.oldest())
	b.put("d", 0, "1")
	b.drop(b.oldest()) // never committed, yet deleted: as Kafka Streams does
	if got := b.flushed(t); got != "c false -1, d false -1" {
		t.Errorf("flushed %s", got)
	}
	b.Rollback()
	b.Close()
	if again := openBox(disk); again.order() != "c1 a1 b2" {
		t.Errorf("after a restart %s", again.order())
	}
}

// A row of an old version takes the prior value of the row before it, by either way of restoring: also if there was none, as what waits was not seen further down.
func TestWaitingPrior(t *testing.T) {
	for _, prior := range [][]byte{[]byte("p"), nil} {
		first := (&waiting{priorUnknown: true, old: prior, new: []byte("1"), since: 3}).encode(nil)
		second := (&waiting{priorUnknown: true, old: []byte("1"), new: []byte("2"), since: 3}).encode(nil)
		b := openBox(memstore.NewDisk())
		for _, value := range [][]byte{first, second} {
			if err := b.Restore([]byte("k"), value, 0); err != nil {
				t.Fatal(err)
			}
		}
		if w, ok := b.find([]byte("k")); !ok || string(w.prior) != string(prior) || (w.prior == nil) != (prior == nil) || string(w.new) != "2" {
			t.Errorf("restored %+v, prior %q", w, prior)
		}
		loaded := openBox(memstore.NewDisk())
		to, err := loaded.back.Load()
		if err != nil {
			t.Fatal(err)
		}
		for _, value := range [][]byte{first, second} {
			if err := loaded.Load(to, []byte("k"), value, 0); err != nil {
				t.Fatal(err)
			}
		}
		if err := to.Finish([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if w, ok := loaded.find([]byte("k")); !ok || string(w.prior) != string(prior) || (w.prior == nil) != (prior == nil) || string(w.new) != "2" {
			t.Errorf("loaded %+v, prior %q", w, prior)
		}
	}
}
