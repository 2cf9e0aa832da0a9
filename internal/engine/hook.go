package engine

// The public types that the engine must see into embed one of the types below, under an unexported alias. The functions here are the only way in.

// Held is the graph inside a topology.Topology.
type Held struct{ graph *Graph }

// Holder is implemented by what embeds Held.
type Holder interface{ held() *Held }

func (h *Held) held() *Held { return h }

// Hold puts a graph into a topology.
func Hold(t Holder, g *Graph) { t.held().graph = g }

// GraphOf takes it out.
func GraphOf(t Holder) *Graph { return t.held().graph }

// HeldPolicy is the policy inside a topology.Policy.
type HeldPolicy struct{ policy Policy }

func (h HeldPolicy) heldPolicy() Policy { return h.policy }

// HoldPolicy makes a HeldPolicy.
func HoldPolicy(p Policy) HeldPolicy { return HeldPolicy{p} }

// PolicyOf takes a policy out of a topology.Policy. The zero one is Unset.
func PolicyOf(p interface{ heldPolicy() Policy }) Policy { return p.heldPolicy() }

// Place is where a processor's context is.
type Place struct {
	task    *Task
	node    *Node
	outputs map[string]any // Receives of the named outputs
}

func (p *Place) place() *Place { return p }

// TaskOf is the task at p.
func TaskOf(p *Place) *Task { return p.task }

// NodeOf is the node at p.
func NodeOf(p *Place) *Node { return p.node }

// OutputOf is the Receive of a named output at p; nil if nobody takes it.
func OutputOf(p *Place, name string) any { return p.outputs[name] }

// Link is what a processor's context forwards to.
type Link[K comparable, V any] struct{ next Receive[K, V] }

func (l *Link[K, V]) link() *Link[K, V] { return l }

// Linked is implemented by contexts.
type Linked[K comparable, V any] interface {
	place() *Place
	link() *Link[K, V]
}

// Bind connects a context to its task, its children and those of its named outputs.
func Bind[K comparable, V any](c Linked[K, V], t *Task, node *Node, next Receive[K, V], outputs map[string]any) {
	*c.place() = Place{t, node, outputs}
	c.link().next = next
}

// Next is what l forwards to.
func Next[K comparable, V any](l *Link[K, V]) Receive[K, V] { return l.next }

// Check is how a context tells whether a key belongs to its task.
type Check[K comparable] struct{ key func(K) error }

func (c *Check[K]) check() *Check[K] { return c }

// SetCheck gives a context its check; nil lets every key pass.
func SetCheck[K comparable](c interface{ check() *Check[K] }, key func(K) error) { c.check().key = key }

// CheckOf is nil if the key may belong to the task, as far as that is known.
func CheckOf[K comparable](c *Check[K], k K) error {
	if c.key == nil {
		return nil
	}
	return c.key(k)
}

// Fixed is the key inside a processor.FixedKeyRecord.
type Fixed[K comparable] struct {
	key       K
	null, set bool
}

func (f *Fixed[K]) fixed() *Fixed[K] { return f }

// Fix sets the key of a record.
func Fix[K comparable](r interface{ fixed() *Fixed[K] }, k K, null bool) {
	*r.fixed() = Fixed[K]{k, null, true}
}

// KeyOf is a record's key, whether it is null, and whether it was ever set: a user's literal was not.
func KeyOf[K comparable](f *Fixed[K]) (k K, null, set bool) { return f.key, f.null, f.set }

// HasKey says whether the key of a record was ever set.
func HasKey[K comparable](r interface{ fixed() *Fixed[K] }) bool { return r.fixed().set }

// Headers are the headers inside processor.Headers.
type Headers struct{ list []Header }

func (h *Headers) headers() *Headers { return h }

// SetHeaders sets them.
func SetHeaders(h interface{ headers() *Headers }, list []Header) { h.headers().list = list }

// HeadersOf reads what SetHeaders set.
func HeadersOf(h interface{ headers() *Headers }) []Header { return h.headers().list }

// ListOf reads them.
func ListOf(h *Headers) []Header { return h.list }

// Codec is what the engine knows of a serde.
type Codec[T any] interface {
	Encode(dst []byte, v T) ([]byte, error)
	Decode(src []byte) (T, error)
}

// Ends is how records of a topic are written and read, inside a topology.Topic.
type Ends[K comparable, V any] struct {
	Key       Codec[K]
	Value     Codec[V]
	Partition func(k K, v V, n int) int // nil goes by the key's bytes
	Tail      int                       // how many of them, at the end, have no part in it
}

func (e Ends[K, V]) ends() Ends[K, V] { return e }

// Ended is implemented by what embeds Ends.
type Ended[K comparable, V any] interface{ ends() Ends[K, V] }

// EndsOf takes the ends out of a topic.
func EndsOf[K comparable, V any](t Ended[K, V]) Ends[K, V] { return t.ends() }
