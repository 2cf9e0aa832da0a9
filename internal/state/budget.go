package state

import "sync/atomic"

// Budget is the memory that the stores of one process share, in bytes. It is safe for use by many goroutines. A nil Budget has no limit.
type Budget struct {
	limit    int64
	used     atomic.Int64
	reserved atomic.Int64 // the part of used that Reserve gave
}

// NewBudget makes a budget. A limit of 0 or less means no limit.
func NewBudget(limit int64) *Budget { return &Budget{limit: limit} }

// Add says that a store now holds delta bytes more, or less if it is negative.
func (b *Budget) Add(delta int64) {
	if b != nil {
		b.used.Add(delta)
	}
}

// Reserve is Add for what makes a store faster and cannot be evicted bit by bit: a filter. All of that together gets up to half of the limit; what
// would be more is refused, and nothing is added then. A negative number gives back.
func (b *Budget) Reserve(delta int64) bool {
	if b == nil {
		return true
	}
	if now := b.reserved.Add(delta); delta > 0 && b.limit > 0 && now > b.limit/2 {
		b.reserved.Add(-delta)
		return false
	}
	b.used.Add(delta)
	return true
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
