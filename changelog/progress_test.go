package changelog

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p Progress
		if s := p.State(); s != (State{}) {
			t.Errorf("before it began: %+v", s)
		}
		p.begin(Part{Topic: "t", Partition: 3, From: FromStart, End: 1100})
		p.startsAt(100)
		for i := range 5 { // 100 offsets a second, of which 40 are records
			<-time.After(time.Second)
			p.moved(int64(200+100*i), 40, 400)
		}
		s := p.State()
		if s.Topic != "t" || s.Partition != 3 || s.From != 100 || s.Position != 600 || s.End != 1100 || s.Records != 200 || s.Bytes != 2000 {
			t.Errorf("%+v", s)
		}
		if s.Rate != 40 || s.Left != 5*time.Second || s.Done {
			t.Errorf("rate %v, left %s, done %t", s.Rate, s.Left, s.Done)
		}
		<-time.After(20 * time.Second)
		p.stalled(s.Started.Add(5 * time.Second))
		if s := p.State(); s.StalledSince.IsZero() || s.Rate > 20 || s.Left <= 5*time.Second {
			t.Errorf("standing still: %+v", s)
		}
		p.moved(1100, 50, 500)
		p.done()
		if s := p.State(); !s.StalledSince.IsZero() || s.Left != 0 || !s.Done || s.Rate != 10 {
			t.Errorf("done: %+v", s)
		}
	})
}
