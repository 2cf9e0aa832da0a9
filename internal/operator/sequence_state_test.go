package operator

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/kolkstreams/kolk/serde"
)

func texts(t interface{ Fatal(...any) }, s serde.Serde[*string], width int) *partials[*string] {
	p := &partials[*string]{serde: s, width: width, broken: func(err error) { t.Fatal(err) }}
	p.null, _ = s.(serde.Nullable[*string])
	return p
}

func TestPartialsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		width := rapid.IntRange(1, 5).Draw(t, "width")
		s := serde.Optional(serde.String())
		p := texts(t, s, width)
		p.listed, p.next = rapid.Int64().Draw(t, "listed"), rapid.Uint64Range(1000, 1<<62).Draw(t, "next")
		records := rapid.IntRange(1, 6).Draw(t, "records")
		for range records {
			var v *string
			if rapid.Bool().Draw(t, "there") {
				text := rapid.SampledFrom([]string{"", "a", "more"}).Draw(t, "text")
				v = &text
			}
			p.add(v)
		}
		for range rapid.IntRange(0, 4).Draw(t, "matches") {
			x := partial{step: rapid.IntRange(0, width-1).Draw(t, "step"), count: rapid.IntRange(1, 1000).Draw(t, "count"), limit: rapid.IntRange(1, width+1).Draw(t, "limit"),
				gap: rapid.Bool().Draw(t, "gap"), dead: rapid.IntRange(0, 3).Draw(t, "dead") == 0, first: rapid.Int64Min(0).Draw(t, "first"), last: rapid.Int64Min(0).Draw(t, "last")}
			x.begin = p.next - rapid.Uint64Range(1, 1000).Draw(t, "begin")
			x.end = p.next - rapid.Uint64Range(1, 1000).Draw(t, "end")
			p.parts = append(p.parts, x)
			for step := range width {
				ref := rapid.IntRange(-1, records-1).Draw(t, "ref")
				switch {
				case step > x.step:
					ref = -1
				case step == x.step:
					ref = max(0, ref)
				}
				p.refs = append(p.refs, int32(ref))
			}
		}
		want := fmt.Sprintf("%q", p.seen())
		b, err := p.encode([]byte("before"))
		if err != nil {
			t.Fatal(err)
		}
		b = bytes.TrimPrefix(b, []byte("before"))
		again := texts(t, s, width)
		if err := again.decode(b); err != nil {
			t.Fatal(err)
		}
		twice, err := again.encode(nil) // before any value was decoded
		if err != nil || !bytes.Equal(b, twice) {
			t.Fatalf("%x, then %x, %v", b, twice, err)
		}
		if got := fmt.Sprintf("%q", again.seen()); got != want {
			t.Fatal(cmp.Diff(want, got))
		}
		if again, err := again.encode(nil); err != nil || !bytes.Equal(b, again) {
			t.Fatalf("%x, then %x after a look at the values, %v", b, again, err)
		}
		for n := range b {
			if err := again.decode(b[:n]); err == nil {
				t.Fatalf("the first %d of %d bytes are taken", n, len(b))
			}
		}
		if err := again.decode(append(b, 0)); err == nil {
			t.Fatal("a byte too many is taken")
		}
	})
}

// seen is what partial matches say of themselves.
func (p *partials[V]) seen() (out []string) {
	out = append(out, fmt.Sprint("listed ", p.listed, " next ", p.next))
	for i, x := range p.parts {
		if x.dead {
			continue
		}
		text := fmt.Sprintf("%+v", x)
		for s := range x.step + 1 {
			if p.ref(i, s) < 0 {
				continue
			}
			if v, _ := any(p.at(i, s)).(*string); v != nil {
				text += fmt.Sprintf(" %d=%q", s, *v)
			} else {
				text += fmt.Sprintf(" %d=null", s)
			}
		}
		out = append(out, text)
	}
	return out
}

// What is no encoded state is an error, whatever it is.
func FuzzPartials(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{sequenceVersion})
	f.Add([]byte{sequenceVersion, 2, 1, 1, 2, 'a', 1, 0, 0, 1, 1, 1, 0, 0, 1})
	f.Add([]byte{sequenceVersion, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Add([]byte{sequenceVersion + 1, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, src []byte) {
		p := texts(t, serde.Optional(serde.String()), 3)
		if p.decode(src) != nil {
			return
		}
		p.seen()
		if _, err := p.encode(nil); err != nil {
			t.Error(err)
		}
	})
}

func TestSequenceRows(t *testing.T) {
	s := sequenceRows[string]{serde.String()}
	var last []byte
	for _, r := range []sequenceRow[string]{{key: ""}, {key: "a"}, {key: "b"}, {dueRow, 0, "z"}, {dueRow, 255, "a"}, {dueRow, 256, ""}, {dueRow, 256, "a"}, {dueRow, 1 << 62, "a"}} {
		b, err := s.Encode(nil, r)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Compare(last, b) >= 0 {
			t.Errorf("%x does not come after %x", b, last)
		}
		last = b
		if got, err := s.Decode(b); err != nil || got != r {
			t.Errorf("%+v became %+v, %v", r, got, err)
		}
		begin, err := s.Encode(nil, sequenceRow[string]{kind: bound, due: r.due})
		if err != nil || r.kind == dueRow && bytes.Compare(begin, b) > 0 {
			t.Errorf("bound %x is behind %x, %v", begin, b, err)
		}
	}
	for _, b := range [][]byte{nil, {1}, {1, 0, 0, 0}, {2, 'a'}} {
		if r, err := s.Decode(b); err == nil {
			t.Errorf("%x became %+v", b, r)
		}
	}
	null := sequenceRows[*string]{serde.Optional(serde.String())}
	if b, err := null.Encode([]byte{}, sequenceRow[*string]{}); b != nil || err != nil {
		t.Errorf("a null key became %x, %v", b, err)
	}
}

// The shape of a pattern is part of what a store's state is checked by; it must be one word.
func TestSequenceStorePrint(t *testing.T) {
	is := func(string) bool { return true }
	p := &Sought[string]{Within: 600_000, Steps: []Step[string]{
		{Test: Test[string]{Name: "small", Is: is}, Repeats: true, Times: 2},
		{Test: Test[string]{Name: "maybe", Is: is}, Optional: true, Times: 1},
		{Test: Test[string]{Name: "large", Is: is}, Not: Test[string]{Name: "pin", Is: is}, Times: 1},
		{Test: Test[string]{Name: "last", Is: is}, Strict: true, Times: 1},
	}, Not: Test[string]{Name: "never", Is: is}}
	d := SequenceStore("s", serde.String(), serde.String(), p)
	if d.Key != "sequence(string)" || d.Value != "sequence1(string;small*2,maybe?,!pin,large,.last,!never,within=600000ms)" {
		t.Errorf("key %s value %s", d.Key, d.Value)
	}
	if d.Expected != 0 || d.TTL != 0 || len(d.Faults) > 0 || d.Kind != "keyvalue" {
		t.Errorf("declaration %+v", d)
	}
}
