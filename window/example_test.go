package window_test

import (
	"fmt"
	"time"

	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/window"
)

// A key in a topic of daily results says on its own when the day began; when it ended follows from the calendar.
func ExampleKeySerde() {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		fmt.Println(err)
		return
	}
	keys := window.KeySerde(serde.String(), window.Daily(berlin))

	// The day on which the clocks go back.
	written, err := keys.Encode(nil, window.Of("EDDF", time.Date(2024, time.October, 27, 0, 0, 0, 0, berlin), time.Time{}))
	if err != nil {
		fmt.Println(err)
		return
	}
	key, err := keys.Decode(written)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(key.Key, "on", key.Start().In(berlin).Format(time.DateOnly), "for", key.End().Sub(key.Start()))
	// Output: EDDF on 2024-10-27 for 25h0m0s
}
