package state

import "sync/atomic"

// Budget is the memory that the stores of one process share, in bytes. It is safe for use by many goroutines. A nil Budget has no limit.
type Budget struct {
	limit    int64
	used     atomic.Int64
	reserved atomic.Int64 // by Reserve
}

// NewBudget makes a budget. A limit of 0 or less means no limit.
func NewBudget(limit int64) *Budget { return &Budget{limit: limit} }

// Add says that a store now holds delta bytes more, or less if it is negative.
func (b *Budget) Add(delta int64) {
	if b != nil {
		b.used.Add(delta)
	}
}

// Reserve asks for memory for what makes stores faster and cannot be evicted bit by bit: filters. It has a limit of its own, half as much again as that of the rest, and
// does not count as used. It returns false, and nothing is reserved, if there is not enough left. A negative number gives back.
func (b *Budget) Reserve(delta int64) bool {
	if b == nil {
		return true
	}
	if now := b.reserved.Add(delta); delta > 0 && b.limit > 0 && now > b.limit+b.limit/2 {
		b.reserved.Add(-delta)
		return false
	}
	return true
}

// Reserved is what Reserve has given.
func (b *Budget) Reserved() int64 {
	if b == nil {
		return 0
	}
	return b.reserved.Load()
}

// Used is what all stores hold.
func (b *Budget) Used() int64 {
	if b == nil {
		return 0
	}
	return b.used.Load()
}

// Limit is the budget's size; 0 means no limit.
func (b *Budget) Limit() int64 {
	if b == nil {
		return 0
	}
	return max(b.limit, 0)
}

// Over is by how many bytes the stores hold too much; 0 or less means that there is room.
func (b *Budget) Over() int64 {
	if b == nil || b.limit <= 0 {
		return 0
	}
	return b.used.Load() - b.limit
}

// Share is what a store has told a budget that it holds. The zero value is nothing.
type Share struct {
	Held int64 // bytes
}

// Hold tells the budget that the store holds now bytes instead of what it held before.
func (s *Share) Hold(b *Budget, now int64) {
	b.Add(now - s.Held)
	s.Held = now
}
