package store

import "testing"

func TestIndex(t *testing.T) {
	for _, byValue := range []bool{true, false} {
		var x index[string]
		if size := x.init(byValue); size != 16 {
			t.Errorf("a key of %d bytes", size)
		}
		x.grow()
		find := func(name string) (uint32, bool) {
			if byValue {
				id, ok := x.byValue[name]
				return id, ok
			}
			id, ok := x.byName[name]
			return id, ok
		}
		for id, name := range []string{"a", "b", "c"} {
			x.last = name
			x.insert(uint32(id), name)
		}
		x.erase(1, "b")
		x.renew()
		for id, name := range []string{"a", "b", "c"} {
			if got, ok := find(name); ok != (name != "b") || ok && got != uint32(id) {
				t.Errorf("by value %v: %s is %d, %v", byValue, name, got, ok)
			}
		}
		if byValue && (x.keys[0][0] != "a" || x.keys[0][1] != "") {
			t.Errorf("keys %q", x.keys[0][:3])
		}
	}
}
