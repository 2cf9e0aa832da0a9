package topology

import (
	"fmt"
	"reflect"

	"github.com/kolkstreams/kolk/serde"
)

// codec is what is known of the serde of keys or values at a place in the graph.
type codec[T any] struct {
	s     serde.Serde[T] // nil: it goes by the type
	from  *node          // where the type came from
	clash *node          // a merge of streams with different serdes
}

// inherit keeps the serde as long as the type stays. n is the node whose function made the new type.
func inherit[T, T2 any](c codec[T], n *node) codec[T2] {
	if same, ok := any(c).(codec[T2]); ok {
		return same
	}
	return codec[T2]{from: n}
}

// find is the serde, if there is one.
func (c codec[T]) find(b *Builder) (serde.Serde[T], bool) {
	if c.s != nil {
		return c.s, true
	}
	if d, ok := b.defaults[reflect.TypeFor[T]()]; ok {
		return d.serde.(serde.Serde[T]), true
	}
	return serde.Builtin[T]()
}

// need is the serde; its lack is a fault at n. what is "key" or "value".
func (c codec[T]) need(n *node, what string) (serde.Serde[T], bool) {
	if c.clash != nil {
		n.fault(fmt.Sprintf("the serde of the %s is not clear: %s merges streams with different ones", what, c.clash.run.Name), fmt.Sprintf("settle it with %s after Merge", with(what)))
		return nil, false
	}
	s, ok := c.find(n.b)
	if !ok {
		n.fault(fmt.Sprintf("no serde is known for its %s, the type %v that %s makes", what, reflect.TypeFor[T](), c.from.run.Name),
			fmt.Sprintf("register one with Builder.Default, or give one with %s", with(what)))
	}
	return s, ok
}

func with(what string) string {
	if what == "key" {
		return "WithKey"
	}
	return "WithValue"
}

// merge is the serde of two merged streams, which n merges.
func (c codec[T]) merge(o codec[T], n *node) codec[T] {
	switch {
	case c.clash != nil || o.s == nil && o.clash == nil:
		return c
	case o.clash != nil || c.s == nil:
		return o
	case !serde.Same(c.s, o.s):
		return codec[T]{clash: n}
	}
	return c
}

// untouched says where keys or values come from if no function has touched them since they were decoded; nil if one has.
type untouched[T any] = *codec[T]

// both is what two merged streams have in common.
func both[T any](a, b untouched[T]) untouched[T] {
	switch {
	case a == nil || b == nil:
		return nil
	case a.s == nil && b.s == nil || a.s != nil && b.s != nil && serde.Same(a.s, b.s):
		return a
	}
	return nil
}

// kept says whether bytes that a source read with u can be written as they are where s is to write.
func kept[T any](b *Builder, u untouched[T], s serde.Serde[T]) bool {
	if u == nil {
		return false
	}
	was, ok := u.find(b)
	return ok && serde.Same(was, s)
}
