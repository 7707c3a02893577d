# SPDX-License-Identifier: GPL-2.0-only
"""A private MariaDB server with the test plugin, in a directory of its own."""

import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[3]
BUILD = ROOT / "build" / "figures-test"
INCLUDE = ["-isystem", "/usr/include/mariadb/server", "-isystem", "/usr/include/mariadb"]
FLAGS = ["-std=c++17", "-O2", "-g", "-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter"]


def build():
    """Compiles the plugin and the client."""
    BUILD.mkdir(parents=True, exist_ok=True)
    mariadb = ROOT / "adapters" / "mariadb"
    sources = [*sorted(mariadb.glob("figures*.cc")), mariadb / "sql_commands.cc",
               HERE / "figures_test_plugin.cc"]
    subprocess.run(["g++", *FLAGS, "-fno-exceptions", "-fno-rtti", "-fPIC", "-shared",
                    "-DMYSQL_DYNAMIC_PLUGIN", *INCLUDE, *map(str, sources),
                    "-o", str(BUILD / "figures_test.so")], check=True)
    libs = subprocess.check_output(["mariadb_config", "--include", "--libs"], text=True).split()
    subprocess.run(["g++", *FLAGS, str(HERE / "figures_client.cc"), *libs,
                    "-o", str(BUILD / "figures_client")], check=True)


class Server:
    """Started on entry, stopped by its own pid on exit; then the directory is removed."""

    def __init__(self, *options, environment=None, performance_schema=True, log_slow=False):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="server-", dir=BUILD))
        self.socket = self.directory / "s"
        self.figures = self.directory / "figures.log"
        self.errors = self.directory / "error.log"
        self.environment = dict(os.environ, TACHO_FIGURES_LOG=str(self.figures),
                                **(environment or {}))
        self.options = list(options)
        if performance_schema:
            prefix = "--performance-schema-"
            self.options += ["--performance-schema=ON",
                             prefix + "events-statements-history-long-size=1000000",
                             *(f"{prefix}consumer-events-statements-{name}=ON"
                               for name in ("current", "history", "history-long"))]
        if log_slow:
            self.options += ["--slow-query-log=1", "--long-query-time=0", "--log-output=TABLE"]

    def __enter__(self):
        plugins = self.directory / "plugins"
        plugins.mkdir()
        for plugin in pathlib.Path("/usr/lib/mysql/plugin").glob("*.so"):
            (plugins / plugin.name).symlink_to(plugin)
        shutil.copy(BUILD / "figures_test.so", plugins)
        data = self.directory / "data"
        # A server removes the temporary tables that it finds in its tmpdir when it starts, those
        # of other servers too.
        temporary = self.directory / "tmp"
        temporary.mkdir()
        installed = subprocess.run(
            ["mariadb-install-db", "--no-defaults", "--user=root", f"--datadir={data}",
             f"--tmpdir={temporary}", "--auth-root-authentication-method=normal",
             "--skip-test-db"],
            capture_output=True, text=True, check=False)
        if installed.returncode != 0:
            raise RuntimeError(installed.stdout + installed.stderr)
        self.process = subprocess.Popen(
            ["mariadbd", "--no-defaults", "--user=root", f"--datadir={data}",
             f"--socket={self.socket}", "--skip-networking", f"--plugin-dir={plugins}",
             f"--tmpdir={temporary}",
             "--plugin-maturity=experimental", f"--log-error={self.errors}",
             "--innodb-buffer-pool-size=64M", f"--pid-file={self.directory}/pid",
             "--local-infile=1", "--secure-file-priv=", *self.options],
            env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while not self.answers():
            if self.process.poll() is not None:
                raise RuntimeError("the server did not start:\n" + self.errors.read_text())
            time.sleep(0.05)
        return self

    def answers(self):
        """Whether the server accepts connections."""
        return subprocess.run(["mariadb-admin", "--no-defaults", "-uroot", f"-S{self.socket}",
                               "ping"], stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL).returncode == 0

    def __exit__(self, *failure):
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait()
        log = self.errors.read_text()
        shutil.rmtree(self.directory)
        if status != 0 or "signal 11" in log:
            raise RuntimeError(f"the server ended with {status}:\n{log}")

    def query(self, sql):
        """The rows of a query, as lists of strings."""
        output = subprocess.check_output(
            ["mariadb", "--no-defaults", "-uroot", f"-S{self.socket}", "-NB", "-e", sql],
            text=True, errors="surrogateescape")
        return [line.split("\t") for line in output.splitlines()]

    def wait_until_alone(self):
        """Returns when the server has ended all sessions of disconnected clients."""
        while self.query("select count(*) from information_schema.processlist "
                         "where user = 'root'") != [["1"]]:
            time.sleep(0.05)

    def install(self):
        """Loads the plugin into the running server."""
        self.query("INSTALL SONAME 'figures_test'")

    def client(self):
        """A connection: the process and the connection id."""
        client = subprocess.Popen([str(BUILD / "figures_client"), str(self.socket)], text=True,
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        return client, int(client.stdout.readline())
