package image

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestAnImageIsReproducible(t *testing.T) {
	config := Config{Env: []string{"A=1"}, Entrypoint: []string{"/run"}}
	forth := []Entry{{Path: "/a/b", Mode: 0o644, Content: "text"}, {Path: "lib", Mode: os.ModeSymlink, Content: "usr/lib"}, {Path: "usr", Mode: os.ModeDir | 0o755}}
	back := slices.Clone(forth)
	slices.Reverse(back)
	first, err := New(config, forth)
	if err != nil {
		t.Fatal(err)
	}
	second, err := New(config, back)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(first, second) {
		t.Error("the order of the entries shows in the image")
	}
	other, err := New(Config{Env: []string{"A=2"}}, forth)
	if err != nil {
		t.Fatal(err)
	}
	if other.Manifest.Digest == first.Manifest.Digest {
		t.Error("another configuration has the same digest")
	}
}

// Every digest in an image is that of what it names, and the layer's is its diff
// id as well, since it is not compressed.
func TestDigestsNameTheirContent(t *testing.T) {
	image, err := New(Config{Entrypoint: []string{"/pause"}}, []Entry{{Path: "pause", Mode: 0o755, Content: "program"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range append(image.Blobs, image.Manifest) {
		sum := sha256.Sum256(b.Content)
		if b.Digest != "sha256:"+hex.EncodeToString(sum[:]) {
			t.Errorf("digest %s of other content", b.Digest)
		}
	}
	var manifest struct {
		Config descriptor
		Layers []descriptor
	}
	var config struct {
		Config Config
		RootFS struct {
			DiffIDs []string `json:"diff_ids"`
		}
	}
	if err := errors.Join(json.Unmarshal(image.Manifest.Content, &manifest), json.Unmarshal(image.Blobs[0].Content, &config)); err != nil {
		t.Fatal(err)
	}
	layer := image.Blobs[1]
	want := descriptor{mediaLayer, layer.Digest, len(layer.Content)}
	if len(manifest.Layers) != 1 || manifest.Layers[0] != want || manifest.Config.Digest != image.Blobs[0].Digest {
		t.Errorf("the manifest names %+v", manifest)
	}
	if len(config.RootFS.DiffIDs) != 1 || config.RootFS.DiffIDs[0] != layer.Digest || config.Config.Entrypoint[0] != "/pause" {
		t.Errorf("the configuration is %+v", config)
	}
}

func TestALayerHasFoldersBeforeTheirContent(t *testing.T) {
	blob, err := layer([]Entry{
		{Path: "var/tmp", Mode: os.ModeDir | os.ModeSticky | 0o777}, {Path: "etc/passwd", Mode: 0o644, Content: "root"},
		{Path: "bin", Mode: os.ModeSymlink | 0o777, Content: "usr/bin"},
	})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for r := tar.NewReader(bytes.NewReader(blob.Content)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, h.FileInfo().Mode().String()+" "+h.Name)
		if h.Uid != 0 || h.Uname != "" || h.ModTime.Unix() != 0 {
			t.Errorf("%s says who made it, or when: %+v", h.Name, h)
		}
	}
	want := []string{"Lrwxrwxrwx bin", "drwxr-xr-x etc/", "-rw-r--r-- etc/passwd", "drwxr-xr-x var/", "dtrwxrwxrwx var/tmp/"}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestAHostImageLeadsToItsEnvironment(t *testing.T) {
	env := t.TempDir()
	if err := os.WriteFile(filepath.Join(env, "pyvenv.cfg"), []byte("home = /usr/bin\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	image, err := Host(env)
	if err != nil {
		t.Fatal(err)
	}
	var config struct{ Config Config }
	if err := json.Unmarshal(image.Blobs[0].Content, &config); err != nil {
		t.Fatal(err)
	}
	want := []string{"PATH=" + env + "/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "VIRTUAL_ENV=" + env}
	if !slices.Equal(config.Config.Env, want) {
		t.Errorf("got %q, want %q", config.Config.Env, want)
	}
	if _, err := Host(filepath.Join(env, "pyvenv.cfg")); err == nil {
		t.Error("a file was taken for a folder")
	}
	if _, err := Host(filepath.Join(env, "missing")); err == nil {
		t.Error("a missing folder was taken")
	}
}

func TestOnlyLinksOfTheRootBecomeLinks(t *testing.T) {
	root := t.TempDir()
	if err := errors.Join(os.Symlink("usr/bin", filepath.Join(root, "bin")), os.Mkdir(filepath.Join(root, "lib"), 0o755)); err != nil {
		t.Fatal(err)
	}
	got, err := rootLinks(root)
	if err != nil {
		t.Fatal(err)
	}
	want := []Entry{{Path: "bin", Mode: os.ModeSymlink | 0o777, Content: "usr/bin"}}
	if !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestRegistryServesPulls(t *testing.T) {
	python, err := New(Config{}, []Entry{{Path: "a", Mode: 0o644, Content: "a"}})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(NewRegistry(map[string]Image{"python": python, "team/trainer": python}))
	defer server.Close()
	ask := func(method, path string) (*http.Response, string) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response, string(body)
	}
	manifest, layer := python.Manifest, python.Blobs[1]
	for _, c := range []struct {
		method, path string
		status       int
		body         string
	}{
		{"GET", "/v2/", 200, ""},
		{"GET", "/v2/library/python/manifests/latest?ns=docker.io", 200, string(manifest.Content)},
		{"GET", "/v2/python/manifests/3.12", 200, string(manifest.Content)},
		{"GET", "/v2/team/trainer/manifests/" + manifest.Digest, 200, string(manifest.Content)},
		{"HEAD", "/v2/library/python/manifests/latest", 200, ""},
		{"GET", "/v2/library/python/blobs/" + layer.Digest, 200, string(layer.Content)},
		{"GET", "/v2/library/python/blobs/sha256:00", 404, "BLOB_UNKNOWN"},
		{"GET", "/v2/library/python/manifests/sha256:00", 404, "MANIFEST_UNKNOWN"},
		{"GET", "/v2/library/pytorch/manifests/latest", 404, `image \"pytorch\" is not known to this node; it has: python, team/trainer`},
		{"GET", "/v2/python/tags/list", 404, ""},
		{"GET", "/other", 404, ""},
		{"PUT", "/v2/python/manifests/latest", 405, "UNSUPPORTED"},
	} {
		response, body := ask(c.method, c.path)
		if response.StatusCode != c.status || !strings.Contains(body, c.body) {
			t.Errorf("%s %s: %s: %q, want %d with %q", c.method, c.path, response.Status, body, c.status, c.body)
		}
		if strings.Contains(c.path, "/manifests/") && c.status == 200 {
			h := response.Header
			if h.Get("Docker-Content-Digest") != manifest.Digest || h.Get("Content-Type") != MediaManifest || response.ContentLength != int64(len(manifest.Content)) {
				t.Errorf("%s %s: header %v", c.method, c.path, h)
			}
		}
	}
}
