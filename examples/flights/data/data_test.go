package data

import (
	"bytes"
	"compress/gzip"
	"strings"
	"testing"
	"time"
)

func TestFlights(t *testing.T) {
	all, err := Flights()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 20_000 {
		t.Fatalf("%d flights", len(all))
	}
	first := Flight{time.Date(2001, 1, 1, 0, 47, 0, 0, time.UTC), 66, 1750, "DTW", "LAS"}
	if all[0] != first {
		t.Errorf("the first flight is %v, want %v", all[0], first)
	}
	if all[0].Day() != "2001-01-01" {
		t.Errorf("its day is %s", all[0].Day())
	}
	for i := 1; i < len(all); i++ {
		if all[i].Departed.Before(all[i-1].Departed) {
			t.Fatalf("flight %d departed before the one in front of it", i)
		}
	}
}

func TestAirports(t *testing.T) {
	all, err := Airports()
	if err != nil {
		t.Fatal(err)
	}
	codes := make(map[string]bool)
	for _, a := range all {
		codes[a.Code] = true
	}
	if len(codes) != 3376 || len(all) != 3376 {
		t.Errorf("%d airports of %d codes, want 3376", len(all), len(codes))
	}
	flights, err := Flights()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range flights {
		if !codes[f.Destination] {
			t.Fatalf("a flight lands at %s, which is no airport", f.Destination)
		}
	}
}

func TestRowsThatCannotBeRead(t *testing.T) {
	packed := func(text string) []byte {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	const head = "date,delay_minutes,distance_miles,origin,destination\n"
	for _, c := range []struct {
		file []byte
		want string
	}{
		{[]byte("plain text"), "unpack flights"},
		{packed(""), "column names of flights"},
		{packed(head + "2001/01/01 00:47,66\n"), "wrong number of fields"},
		{packed(head + "2001/01/01 00:47,66,1,A,B\n2001/01/01 25:00,late,1,A,B\n"), "flights, line 3"},
	} {
		_, err := rows("flights", c.file, 5, parseFlight)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
}
