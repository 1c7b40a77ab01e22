package powerfs

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func draws(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

// put creates a file, or opens it, and writes to its beginning.
func put(t require.TestingT, d *Disk, name, text string) *file {
	f, err := d.create(name)
	require.NoError(t, err)
	require.NoError(t, d.write(f, []byte(text), 0))
	return f
}

func contents(t *testing.T, d *Disk, name string) string {
	t.Helper()
	f, err := d.lookup(name)
	require.NoError(t, err)
	into := make([]byte, 100)
	n, err := d.read(f, into, 0)
	require.NoError(t, err)
	return string(into[:n])
}

func TestReadersSeeWhatIsNotSynced(t *testing.T) {
	d := New(Image{"old": []byte("as it was")}, Options{})
	f := put(t, d, "new", "hello")
	require.Equal(t, "hello", contents(t, d, "new"))
	require.NoError(t, d.truncate(f, 2))
	require.NoError(t, d.truncate(f, 4))
	require.Equal(t, "he\x00\x00", contents(t, d, "new"))
	require.NoError(t, d.rename("new", "newer"))
	_, err := d.lookup("new")
	require.ErrorIs(t, err, syscall.ENOENT)
	require.NoError(t, d.link(f, "other"))
	require.ErrorIs(t, d.link(f, "old"), syscall.EEXIST)
	require.NoError(t, d.unlink("newer"))
	require.ErrorIs(t, d.unlink("newer"), syscall.ENOENT)
	require.ErrorIs(t, d.rename("newer", "x"), syscall.ENOENT)
	require.Equal(t, "he\x00\x00", contents(t, d, "other"))
	require.Equal(t, Image{"old": []byte("as it was")}, d.Survivors(Drop, draws(1)), "nothing of it is durable")
}

func TestASyncOfAFileKeepsItsDataAndOnlyTheDirectoryKeepsItsName(t *testing.T) {
	d := New(nil, Options{})
	f := put(t, d, "a", "data")
	require.NoError(t, d.sync(f))
	require.Empty(t, d.Survivors(Drop, draws(1)), "the name was not synced")

	d = New(nil, Options{})
	put(t, d, "a", "data")
	require.NoError(t, d.syncNames())
	require.Equal(t, Image{"a": nil}, d.Survivors(Drop, draws(1)), "the data was not synced")

	d = New(nil, Options{Journal: true})
	put(t, d, "before", "lost")
	require.NoError(t, d.sync(put(t, d, "a", "data")))
	require.Equal(t, Image{"a": []byte("data"), "before": nil}, d.Survivors(Drop, draws(1)), "a journal keeps earlier names")
}

func TestALyingSyncKeepsNothing(t *testing.T) {
	d := New(nil, Options{LyingSync: true})
	require.NoError(t, d.sync(put(t, d, "a", "data")))
	require.NoError(t, d.syncNames())
	require.Empty(t, d.Survivors(Drop, draws(1)))
}

func TestTheCut(t *testing.T) {
	d := New(Image{"a": []byte("0")}, Options{})
	d.CutAt(3)
	f := put(t, d, "a", "1") // the name is there: one operation
	require.NoError(t, d.sync(f))
	select {
	case <-d.Off():
		t.Fatal("the power is off too early")
	default:
	}
	require.ErrorIs(t, d.write(f, []byte("2"), 0), syscall.EIO)
	<-d.Off()
	require.Equal(t, 3, d.Ops())
	_, err := d.lookup("a")
	require.ErrorIs(t, err, syscall.EIO)
	_, err = d.create("b")
	require.ErrorIs(t, err, syscall.EIO)
	_, err = d.list()
	require.ErrorIs(t, err, syscall.EIO)
	for name, err := range map[string]error{"sync": d.sync(f), "names": d.syncNames(), "unlink": d.unlink("a"), "rename": d.rename("a", "b"),
		"write": d.write(f, []byte("3"), 0), "truncate": d.truncate(f, 1), "link": d.link(f, "c")} {
		require.ErrorIs(t, err, syscall.EIO, name)
	}
	require.Equal(t, 3, d.Ops(), "nothing happens without power")
	require.Equal(t, Image{"a": []byte("1")}, d.Survivors(Drop, draws(1)))
	require.Equal(t, Image{"a": []byte("2")}, d.Survivors(Keep, draws(1)), "the write under way may have been done")
}

func TestASyncUnderWayKeepsNothingForSure(t *testing.T) {
	d := New(Image{"a": []byte("0")}, Options{})
	d.CutAt(2)
	f := put(t, d, "a", "1")
	require.ErrorIs(t, d.sync(f), syscall.EIO)
	require.Equal(t, Image{"a": []byte("0")}, d.Survivors(Drop, draws(1)))
}

// outcomes are the different images that a policy leaves of a disk.
func outcomes(p Policy, make func() *Disk) map[string]bool {
	seen := map[string]bool{}
	for seed := range uint64(300) {
		image := make().Survivors(p, draws(seed))
		text := ""
		for _, name := range slices.Sorted(func(yield func(string) bool) {
			for name := range image {
				if !yield(name) {
					return
				}
			}
		}) {
			text += name + "=" + string(image[name]) + " "
		}
		seen[strings.TrimSpace(text)] = true
	}
	return seen
}

func TestEachPolicyLeavesWhatItSays(t *testing.T) {
	three := func() *Disk { // three pending writes to one file
		d := New(Image{"f": []byte("...")}, Options{})
		f, err := d.lookup("f")
		require.NoError(t, err)
		for i, text := range []string{"a", "b", "c"} {
			require.NoError(t, d.write(f, []byte(text), int64(i)))
		}
		return d
	}
	require.Equal(t, map[string]bool{"f=...": true}, outcomes(Drop, three))
	require.Equal(t, map[string]bool{"f=abc": true}, outcomes(Keep, three))
	require.Equal(t, map[string]bool{"f=...": true, "f=a..": true, "f=ab.": true, "f=abc": true}, outcomes(Prefix, three))
	any8 := map[string]bool{"f=...": true, "f=a..": true, "f=.b.": true, "f=..c": true, "f=ab.": true, "f=a.c": true, "f=.bc": true, "f=abc": true}
	require.Equal(t, any8, outcomes(Reorder, three))
	require.Equal(t, any8, outcomes(Tear, three))
}

func TestAWriteIsTornBetweenSectors(t *testing.T) {
	old, fresh := bytes.Repeat([]byte("o"), 3*sector), bytes.Repeat([]byte("n"), 2*sector)
	torn := false
	for seed := range uint64(50) {
		d := New(Image{"f": old}, Options{})
		f, err := d.lookup("f")
		require.NoError(t, err)
		require.NoError(t, d.write(f, fresh, sector/2)) // half a sector, a whole one, half a sector
		got := d.Survivors(Tear, draws(seed))["f"]
		require.Len(t, got, 3*sector)
		kinds := ""
		for _, part := range [][]byte{got[:sector/2], got[sector/2 : sector], got[sector : 2*sector], got[2*sector : 5*sector/2], got[5*sector/2:]} {
			require.Equal(t, bytes.Repeat(part[:1], len(part)), part, "a sector is old or new as a whole")
			kinds += string(part[0])
		}
		require.Equal(t, "o", kinds[:1]+strings.Trim(kinds[4:], "o"), "what was not written is untouched")
		torn = torn || strings.Contains(kinds[1:4], "n") && strings.Contains(kinds[1:4], "o")
	}
	require.True(t, torn)
}

func TestGarbageIsOnlyWhereSomethingWasWritten(t *testing.T) {
	garbled := false
	for seed := range uint64(50) {
		d := New(Image{"f": []byte(strings.Repeat("o", 100))}, Options{})
		f, err := d.lookup("f")
		require.NoError(t, err)
		require.NoError(t, d.write(f, []byte(strings.Repeat("n", 20)), 40))
		got := string(d.Survivors(Garble, draws(seed))["f"])
		require.Equal(t, strings.Repeat("o", 40), got[:40])
		require.Equal(t, strings.Repeat("o", 40), got[60:])
		garbled = garbled || strings.Trim(got[40:60], "n") != "" && strings.Trim(got[40:60], "o") != ""
	}
	require.True(t, garbled)
}

func TestNamesSurviveInOrderWhereThereIsAJournal(t *testing.T) {
	disk := func(journal bool) func() *Disk {
		return func() *Disk {
			d := New(Image{"wal": []byte("old")}, Options{Journal: journal})
			require.NoError(t, d.unlink("wal"))
			_, err := d.create("wal")
			require.NoError(t, err)
			return d
		}
	}
	require.Equal(t, map[string]bool{"wal=old": true, "": true, "wal=": true}, outcomes(Reorder, disk(true)))
	require.Equal(t, map[string]bool{"wal=old": true, "": true, "wal=": true}, outcomes(Reorder, disk(false)))
	two := func(journal bool) func() *Disk {
		return func() *Disk {
			d := New(nil, Options{Journal: journal})
			put(t, d, "a", "")
			put(t, d, "b", "")
			return d
		}
	}
	require.NotContains(t, outcomes(Reorder, two(true)), "b=", "with a journal the later name cannot come alone")
	require.Contains(t, outcomes(Reorder, two(false)), "b=")
}

func TestTheSameDrawsGiveTheSameImage(t *testing.T) {
	image := func() Image {
		d := New(nil, Options{})
		put(t, d, "a", strings.Repeat("x", 5000))
		put(t, d, "b", strings.Repeat("y", 5000))
		return d.Survivors(Garble, draws(7))
	}
	require.Equal(t, image().Digest(), image().Digest())
	require.NotEqual(t, image().Digest(), Image{"a": nil}.Digest())
}

// TestWhatWasSyncedSurvivesEverything: a random history, then a file is synced with
// its name, then more happens to other files; under every policy the file is what it
// was. The negative control is the same with a sync that lies.
func TestWhatWasSyncedSurvivesEverything(t *testing.T) {
	lost := 0
	rapid.Check(t, func(t *rapid.T) {
		o := Options{Journal: rapid.Bool().Draw(t, "journal"), LyingSync: rapid.Bool().Draw(t, "lying")}
		d := New(nil, o)
		history := func(names ...string) {
			for range rapid.IntRange(0, 8).Draw(t, "ops") {
				name := rapid.SampledFrom(names).Draw(t, "name")
				switch f := put(t, d, name, rapid.StringMatching(`[a-z]{1,900}`).Draw(t, "text")); rapid.IntRange(0, 4).Draw(t, "op") {
				case 0:
					require.NoError(t, d.truncate(f, int64(rapid.IntRange(0, 1000).Draw(t, "size"))))
				case 1:
					require.NoError(t, d.unlink(name))
				case 2:
					require.NoError(t, d.rename(name, names[0]))
				case 3:
					require.NoError(t, d.sync(f))
				}
			}
		}
		history("a", "b", "kept")
		f := put(t, d, "kept", "the promise")
		require.NoError(t, d.sync(f))
		require.NoError(t, d.syncNames())
		want := slices.Clone(f.current)
		history("a", "b")
		policy := rapid.SampledFrom(append(Cuts(), Keep)).Draw(t, "policy")
		got := d.Survivors(policy, draws(rapid.Uint64().Draw(t, "seed")))["kept"]
		if !o.LyingSync {
			require.Equal(t, want, got)
		} else if !bytes.Equal(want, got) {
			lost++
		}
	})
	require.NotZero(t, lost, "the negative control: a sync that lies loses")
}

func TestAnImageGoesToADirectoryAndBack(t *testing.T) {
	image := Image{"a": []byte("one"), "b": {}}
	dir := t.TempDir() + "/image"
	require.NoError(t, image.Save(dir))
	back, err := Load(dir)
	require.NoError(t, err)
	require.Equal(t, image, back)
	require.Equal(t, "a (3 bytes), b (0 bytes)", back.String())
}
