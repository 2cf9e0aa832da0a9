package store

// puts is what the open transaction must log, in order.
type puts struct {
	list  []logged
	sent  int // how many of the list Flush gave
	bytes int64
	arena arena
}

type logged struct {
	key, value []byte // in the arena; a nil value is a delete
	at         int64
}

func (p *puts) add(key, value []byte, at int64) {
	l := logged{key: p.keep(key), at: at}
	if value != nil {
		l.value = p.keep(value)
	}
	p.list = append(p.list, l)
	p.bytes += int64(len(key) + len(value))
}

func (p *puts) keep(b []byte) []byte {
	c := p.arena.alloc(len(b))
	copy(c, b)
	return c
}

// flush gives what was added since the last one to write.
func (p *puts) flush(write func(key, value []byte, at int64) error) error {
	for ; p.sent < len(p.list); p.sent++ {
		l := p.list[p.sent]
		if err := write(l.key, l.value, l.at); err != nil {
			return err
		}
	}
	return nil
}

// reset ends the transaction.
func (p *puts) reset() {
	clear(p.list)
	p.list, p.sent, p.bytes = p.list[:0], 0, 0
	p.arena.reset()
}
