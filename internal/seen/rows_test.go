package seen

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Rows are found by name, the last of a name; those that are cut off leave no trace, not even of having replaced another.
func TestRowsAgainstModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		type row struct {
			key   string
			cell  int64
			value string
		}
		var list []row
		r := &rows{}
		long := strings.Repeat("k", 63_988) // a name of state.MaxKey bytes
		keys := []string{"", "a", "aa", "b", "a\x00", long}
		for i := range 3000 {
			keys = append(keys, fmt.Sprint("key-", i))
		}
		few := rapid.IntRange(2, len(keys)).Draw(rt, "keys")
		for range rapid.IntRange(1, 30).Draw(rt, "steps") {
			switch rapid.SampledFrom([]string{"put", "put", "put", "many", "cut"}).Draw(rt, "step") {
			case "put":
				key := keys[rapid.IntRange(0, few-1).Draw(rt, "key")]
				x := row{key, rapid.Int64Range(0, 3).Draw(rt, "cell"), rapid.StringN(0, 20, MaxValue+timeSize).Draw(rt, "value")}
				r.put(hashIn(hashKey([]byte(key)), x.cell), []byte(key), x.cell, []byte(x.value), known)
				list = append(list, x)
			case "many":
				for i := range few {
					x := row{keys[i], int64(i & 3), fmt.Sprint(i)}
					r.put(hashIn(hashKey([]byte(x.key)), x.cell), []byte(x.key), x.cell, []byte(x.value), known)
					list = append(list, x)
				}
			case "cut":
				n := rapid.IntRange(0, len(list)).Draw(rt, "n")
				r.cut(n)
				list = list[:n]
			}
		}
		type name struct {
			key  string
			cell int64
		}
		want := map[name]string{}
		for _, x := range list {
			want[name{x.key, x.cell}] = x.value
		}
		if r.live() != len(want) || len(r.list) != len(list) {
			rt.Fatalf("%d rows of %d names, want %d of %d", len(r.list), r.live(), len(list), len(want))
		}
		for _, key := range keys {
			for cell := int64(-1); cell < 5; cell++ {
				x, ok := r.get(hashIn(hashKey([]byte(key)), cell), []byte(key), cell)
				value, has := want[name{key, cell}]
				if ok != has {
					rt.Fatalf("%.20q in %d: found %t, want %t", key, cell, ok, has)
				}
				if !ok {
					continue
				}
				if n, v := r.at(x); string(v) != value || string(n) != string(appendName(nil, []byte(key), cell)) {
					rt.Fatalf("%.20q in %d: %.40x = %q, want %q", key, cell, n, v, value)
				}
			}
		}
		seen := 0
		r.each(func(_ ref, n, v []byte) {
			key, cell := split(n)
			if want[name{string(key), cell}] != string(v) {
				rt.Fatalf("visits %.20q in %d = %q", key, cell, v)
			}
			seen++
		})
		if seen != len(want) {
			rt.Fatalf("%d rows visited, want %d", seen, len(want))
		}
	})
}

// A row costs little beside its own bytes: that is what this store is for.
func TestRowsAreSmall(t *testing.T) {
	r := &rows{}
	const n = 100_000
	own := 0
	for i := range n {
		key := fmt.Appendf(nil, "id-%012d", i)
		r.put(hashIn(hashKey(key), 7), key, 7, []byte("12345678abcd"), known)
		own += len(key) + tail + 12
	}
	if beside := (int(r.held()) - own) / n; beside > 40 {
		t.Errorf("%d bytes a row beside its own", beside)
	}
	var chunks int64
	for _, c := range r.chunks {
		chunks += int64(cap(c))
	}
	if got, want := r.held(), chunks+int64(cap(r.list))*refSize+int64(len(r.table))*slotSize; got != want {
		t.Errorf("%d bytes held, want %d", got, want)
	}
}

func BenchmarkPut(b *testing.B) {
	r := &rows{}
	i := 0
	value := []byte("12345678abcd")
	var key []byte
	for b.Loop() {
		if len(r.list) == 300_000 {
			r = &rows{}
		}
		key = fmt.Appendf(key[:0], "id-%012d", i)
		i++
		r.put(hashIn(hashKey(key), 7), key, 7, value, known)
	}
}
