package rebalance

// Placing tasks is a flow problem: every task sends one unit to a member, the
// members' costs rise with every further task, and the cheapest flow is the
// plan. The costs are compared one after the other, so that no amount of
// stickiness outweighs balance and no amount of state outweighs stickiness.
const (
	byBalance = iota // sum of (tasks^2 / workers) over the members
	byMoves          // tasks taken away from their owner
	byRestore        // state to restore, in sixteenths of each task's state
	bySpread         // as byBalance, within one sub-topology
	byLag            // state to restore, in records
	costs
)

type cost [costs]int64

func (c cost) plus(d cost) cost {
	for i := range c {
		c[i] += d[i]
	}
	return c
}

func (c cost) minus(d cost) cost {
	for i := range c {
		c[i] -= d[i]
	}
	return c
}

func (c cost) less(d cost) bool {
	for i := range c {
		if c[i] != d[i] {
			return c[i] < d[i]
		}
	}
	return false
}

// unitScale divides evenly by every number of workers up to 16, so that the
// balance between usual members is exact in integers.
const unitScale = 720720

// item is something to place: its group (the sub-topology) and what it costs
// at each slot. A slot whose allowed is false cannot take it.
type item struct {
	group   int
	cost    []cost
	allowed []bool
}

// swap is the cheapest item of one group that can go from one slot to another.
type swap struct {
	cost cost
	item int // -1: none can
}

// placer finds the cheapest placement by inserting one item after the other,
// each along the cheapest chain of displacements. The placement is the best
// one for the items inserted so far at any time.
type placer struct {
	slots int
	unit  []int64 // per slot: balance cost of the first task
	load  []int64 // per slot: tasks there
	items []item
	at    []int     // per item: its slot, -1 before it is placed
	held  [][][]int // per group and slot: the items there
	swaps [][]swap  // per group: slots x slots

	// State of one search. Node i < slots is a slot; node slots*(g+1)+i is
	// the door of group g to slot i.
	dist    []cost
	reached []bool
	queued  []bool
	prev    []int // node before, -1 at a start
	moved   []int // item that moves along the edge from prev, -1 for none
	queue   []int
}

func newPlacer(workers []int, groups int) *placer {
	n := len(workers)
	p := &placer{slots: n, unit: make([]int64, n), load: make([]int64, n)}
	for i, w := range workers {
		p.unit[i] = unitScale / int64(min(max(w, 1), maxWorkers))
	}
	p.held = make([][][]int, groups)
	p.swaps = make([][]swap, groups)
	for g := range groups {
		p.held[g] = make([][]int, n)
		p.swaps[g] = make([]swap, n*n)
		for i := range p.swaps[g] {
			p.swaps[g][i].item = -1
		}
	}
	nodes := n * (groups + 1)
	p.dist = make([]cost, nodes)
	p.reached = make([]bool, nodes)
	p.queued = make([]bool, nodes)
	p.prev = make([]int, nodes)
	p.moved = make([]int, nodes)
	return p
}

// settle forgets the items placed so far but keeps their load: what is
// inserted from now on cannot displace them.
func (p *placer) settle() {
	for g := range p.held {
		for i := range p.held[g] {
			p.held[g][i] = nil
		}
		for i := range p.swaps[g] {
			p.swaps[g][i].item = -1
		}
	}
}

// insert places one more item and returns its index. It reports false, and
// changes nothing, if no slot can take the item.
func (p *placer) insert(it item) (index int, ok bool) {
	end, ok := p.search(it)
	if !ok {
		return 0, false
	}
	index = len(p.items)
	p.items = append(p.items, it)
	p.at = append(p.at, -1)
	p.load[end]++

	// Walk the chain back. Each displaced item makes room at the slot that
	// the one before it enters.
	type step struct{ item, to int }
	var steps []step
	node := end
	for {
		if x := p.moved[node]; x >= 0 {
			steps = append(steps, step{x, node % p.slots})
		}
		if p.prev[node] < 0 {
			steps = append(steps, step{index, node % p.slots})
			break
		}
		node = p.prev[node]
	}
	for _, s := range steps {
		p.put(s.item, s.to)
	}
	return index, true
}

func (p *placer) put(x, to int) {
	g, from := p.items[x].group, p.at[x]
	if from >= 0 {
		list := p.held[g][from]
		for i, y := range list {
			if y == x {
				list[i] = list[len(list)-1]
				p.held[g][from] = list[:len(list)-1]
				break
			}
		}
		p.refresh(g, from)
	}
	p.at[x] = to
	p.held[g][to] = append(p.held[g][to], x)
	p.refresh(g, to)
}

// refresh finds anew what group g can send from a slot to every other.
func (p *placer) refresh(g, from int) {
	row := p.swaps[g][from*p.slots : (from+1)*p.slots]
	for to := range row {
		best := swap{item: -1}
		if to != from {
			for _, x := range p.held[g][from] {
				it := &p.items[x]
				if !it.allowed[to] {
					continue
				}
				c := it.cost[to].minus(it.cost[from])
				// The index breaks ties: the order of held has a history.
				if best.item < 0 || c.less(best.cost) || c == best.cost && x < best.item {
					best = swap{c, x}
				}
			}
		}
		row[to] = best
	}
}

// search finds the cheapest way to take the item in and returns the slot
// where the load grows.
func (p *placer) search(it item) (end int, ok bool) {
	clear(p.reached)
	p.queue = p.queue[:0]
	for i := range p.slots {
		if it.allowed[i] {
			p.relax(p.slots*(it.group+1)+i, -1, -1, it.cost[i])
		}
	}
	for head := 0; head < len(p.queue); head++ {
		node := p.queue[head]
		p.queued[node] = false
		d := p.dist[node]
		if node < p.slots {
			p.leave(node, d)
			continue
		}
		g, i := node/p.slots-1, node%p.slots
		c := d
		c[bySpread] += (2*int64(len(p.held[g][i])) + 1) * p.unit[i]
		p.relax(i, node, -1, c)
		for to, s := range p.swaps[g][i*p.slots : (i+1)*p.slots] {
			if s.item >= 0 {
				p.relax(p.slots*(g+1)+to, node, s.item, d.plus(s.cost))
			}
		}
	}
	var best cost
	end = -1
	for i := range p.slots {
		if !p.reached[i] {
			continue
		}
		c := p.dist[i]
		c[byBalance] += (2*p.load[i] + 1) * p.unit[i]
		if end < 0 || c.less(best) {
			end, best = i, c
		}
	}
	return end, end >= 0
}

// leave follows the ways on from a full slot: some group gives up its place.
func (p *placer) leave(i int, d cost) {
	for g := range p.held {
		n := int64(len(p.held[g][i]))
		if n == 0 {
			continue
		}
		c := d
		c[bySpread] -= (2*n - 1) * p.unit[i]
		p.relax(p.slots*(g+1)+i, i, -1, c)
	}
}

func (p *placer) relax(node, from, item int, d cost) {
	if p.reached[node] && !d.less(p.dist[node]) {
		return
	}
	p.reached[node], p.dist[node] = true, d
	p.prev[node], p.moved[node] = from, item
	if !p.queued[node] {
		p.queued[node] = true
		p.queue = append(p.queue, node)
	}
}
