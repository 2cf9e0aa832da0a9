package operator_test

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/internal/operator"
	"github.com/kolkstreams/kolk/internal/state"
	"github.com/kolkstreams/kolk/serde"
)

var sink = &engine.Node{Name: "sink"}

func registration(left bool) operator.Registration[string, string, string] {
	return operator.Registration[string, string, string]{Topic: "asks", Sink: sink, Key: serde.String(), Foreign: serde.String(), Hash: operator.Digest[string, string]{Value: serde.String()},
		Of: func(_, v string) (string, bool) { return v[:1], v[0] != '-' }, Left: left}
}

// instructions are what was asked of whom: "A2" is an answer in any case.
func (b *bench) instructions() string {
	var out []string
	for _, s := range b.sent {
		record, _, _ := strings.Cut(strings.TrimPrefix(s, "asks/"), "@")
		_, record, _ = strings.Cut(record, " ")
		key, value, _ := strings.Cut(record, "=")
		out = append(out, key+hex.EncodeToString([]byte(value[1:2])))
	}
	b.sent = nil
	return strings.Join(out, " ")
}

// Semantics J24: what each change of a row asks for.
func TestRegistrar(t *testing.T) {
	for _, c := range []struct {
		change, inner, left string
	}{
		{"k=>", "", ""},
		{"k=>A", "A03", "A02"},
		{"k=A>A2", "A03", "A02"},
		{"k=A>B", "A00 B02", "A00 B02"},
		{"k=A>-", "A01", "A00 02"},
		{"k=->A", "A03", "A02"},
		{"k=->-2", "", "02"},
		{"k=A>", "A01", "A00 02"},
		{"k=->", "", "02"}, // a row without a foreign key goes
	} {
		for i, want := range []string{c.inner, c.left} {
			b := start(t, engine.Stop, func(b *bench) operator.Take[string, string] {
				s, err := operator.NewRegistrar(b.Task, b.node, registration(i == 1))
				if err != nil {
					t.Fatal(err)
				}
				return changes(s.Receive)
			})
			if err := b.send(c.change); err != nil {
				t.Fatal(err)
			}
			if got := b.instructions(); got != want {
				t.Errorf("%s, left %v: asked %q, want %q", c.change, i == 1, got, want)
			}
		}
	}
}

// A row is asked for again unless it has no partner for sure.
func TestAskAgain(t *testing.T) {
	var gone []bool
	b := start(t, engine.Stop, func(b *bench) operator.Take[string, string] {
		s, err := operator.NewRegistrar(b.Task, b.node, registration(false))
		if err != nil {
			t.Fatal(err)
		}
		return events(func(r *engine.Rec, k, v string) {
			gone = append(gone, s.Again(r, k, operator.Side[string]{Value: v, Has: v != ""}))
		})
	})
	if err := b.send("k=", "k=-", "k=A"); err != nil {
		t.Fatal(err)
	}
	if got := b.instructions(); got != "A02" || !gone[0] || !gone[1] || gone[2] {
		t.Errorf("asked %q, gone %v", got, gone)
	}
}

// Topics and stores that are not there are errors when the task is opened.
func TestForeignJoinsThatCannotOpen(t *testing.T) {
	b := start(t, engine.Stop, func(b *bench) operator.Take[string, string] { return events(func(*engine.Rec, string, string) {}) })
	if _, err := operator.OpenSubscriptions(b.Task, "rows"); err == nil || !strings.Contains(err.Error(), `"rows"`) {
		t.Errorf("got %v", err)
	}
	b.Env().Partitions = func(string) int32 { return 0 }
	if _, err := operator.NewRegistrar(b.Task, b.node, registration(false)); err == nil || !strings.Contains(err.Error(), `"asks"`) {
		t.Errorf("got %v", err)
	}
	to := &operator.Responder[string]{Topic: "answers", Sink: sink, Value: serde.String()}
	if err := to.Open(b.Task); err == nil || !strings.Contains(err.Error(), `"answers"`) {
		t.Errorf("got %v", err)
	}
}

// encoded has bytes for every row.
type encoded string

func (e encoded) Encoded(string) ([]byte, bool) { return []byte(e), true }

// A row is told by its bytes as they are stored, if it is: those of an older version of the code, or of another language, stay what they are.
func TestDigestOfStoredRows(t *testing.T) {
	hash := func(rows state.Encoder[string]) string {
		b := start(t, engine.Stop, func(b *bench) operator.Take[string, string] {
			x := registration(false)
			x.Hash.Rows = rows
			s, err := operator.NewRegistrar(b.Task, b.node, x)
			if err != nil {
				t.Fatal(err)
			}
			return changes(s.Receive)
		})
		if err := b.send("k=>A"); err != nil {
			t.Fatal(err)
		}
		_, value, _ := strings.Cut(b.sent[0], "=")
		return hex.EncodeToString([]byte(value[2:18]))
	}
	if got := hash(nil); got != "fa79dbb0eb96db7831044d767f696750" {
		t.Errorf("the hash of A is %s", got)
	}
	if got := hash(encoded("hello")); got != "30bfb4f39919e764566aea857401d1c6" {
		t.Errorf("the hash of what is stored is %s", got)
	}
}
