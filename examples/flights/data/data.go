// Package data holds the real flights and airports that the flights example works on.
//
// 20,000 flights within the USA from January to March 2001, from the U.S. Bureau of Transportation Statistics (collected under 14 CFR 234), and
// 3,376 airports, from Data.gov (U.S. government work). Both were taken from the npm package vega-datasets 3.2.1 and written as CSV.
package data

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"
)

//go:embed flights-2001q1.csv.gz
var flights []byte

//go:embed airports.csv.gz
var airports []byte

// Flight is one flight that took place.
type Flight struct {
	Departed    time.Time // local time of the origin; the data has no time zones, so it is held as if it were UTC
	Delay       int64     // minutes at arrival; negative if the flight was early
	Miles       int64     // distance
	Origin      string    // IATA code of the airport
	Destination string
}

// Day is the calendar day of departure, such as 2001-03-31.
func (f Flight) Day() string { return f.Departed.Format(time.DateOnly) }

// Airport is a place to land.
type Airport struct {
	Code                       string // IATA
	Name, City, State, Country string
}

// Flights returns all flights in order of departure.
func Flights() ([]Flight, error) { return rows("flights", flights, 5, parseFlight) }

// Airports returns all airports.
func Airports() ([]Airport, error) { return rows("airports", airports, 7, parseAirport) }

func parseFlight(row []string) (Flight, error) {
	departed, badTime := time.Parse("2006/01/02 15:04", row[0])
	delay, badDelay := strconv.ParseInt(row[1], 10, 64)
	miles, badMiles := strconv.ParseInt(row[2], 10, 64)
	return Flight{Departed: departed, Delay: delay, Miles: miles, Origin: row[3], Destination: row[4]}, errors.Join(badTime, badDelay, badMiles)
}

func parseAirport(row []string) (Airport, error) {
	if row[0] == "" {
		return Airport{}, errors.New("an airport without a code")
	}
	return Airport{Code: row[0], Name: row[1], City: row[2], State: row[3], Country: row[4]}, nil
}

// rows reads a gzipped CSV file of so many columns below a line with their names.
func rows[T any](name string, packed []byte, columns int, parse func([]string) (T, error)) ([]T, error) {
	unpacked, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("unpack %s: %w", name, err)
	}
	r := csv.NewReader(unpacked)
	r.FieldsPerRecord = columns
	if _, err := r.Read(); err != nil {
		return nil, fmt.Errorf("read the column names of %s: %w", name, err)
	}
	var all []T
	for {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		v, err := parse(row)
		if err != nil {
			line, _ := r.FieldPos(0)
			return nil, fmt.Errorf("%s, line %d: %w", name, line, err)
		}
		all = append(all, v)
	}
}
