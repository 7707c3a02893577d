# shellcheck shell=bash disable=SC2154 # root, work, release, family, series and daemon: test-rpm.sh
# Sourced by test-rpm.sh: packages that provide what packages of RHEL 9 would, made of the Debian
# system in $root. They have RHEL's names, versions and paths, and nothing of RHEL's in them.

# provided_versions: what RHEL 9's C and C++ library provide, in the form of rpm's dependencies.
# They are the versions of the Debian system's libraries up to those of scripts/glibc.sh.
provided_versions() {
    local library name version
    for library in ld-linux-x86-64.so.2 libc.so.6 libm.so.6 libdl.so.2 libpthread.so.0 librt.so.1 \
        libgcc_s.so.1 libstdc++.so.6; do
        name=$(find "$root/usr/lib/x86_64-linux-gnu" -name "$library" | head -n 1)
        echo "Provides: $library()(64bit)"
        objdump -p "$name" |
            awk '/^Version definitions:/ { on = 1; next } on && NF >= 4 { print $4 }' |
            while read -r version; do
                case $version in
                    GLIBC_2.3[5-9]* | GLIBC_2.[4-9]?* | GLIBCXX_3.4.3[0-9] | CXXABI_1.3.1[4-9]) ;;
                    *) echo "Provides: $library($version)(64bit)" ;;
                esac
            done
    done
}

# build_standin NAME: from $work/NAME.spec.
build_standin() {
    rpmbuild -bb --quiet --target x86_64-linux \
        --define "_topdir $work/standin" --define "_rpmdir $work/standins" \
        --define 'debug_package %{nil}' --define '__os_install_post %{nil}' \
        --define '_build_id_links none' --define '__provides_exclude_from .*' \
        --define '__requires_exclude .*' \
        "$work/$1.spec" >"$work/standin.log" 2>&1 || {
        cat "$work/standin.log" >&2
        fail "the stand-in $1 cannot be built"
    }
}

base_standin() {
    {
        printf 'Name: base-stand-in\nVersion: 9\nRelease: 1\nSummary: x\nLicense: x\n'
        printf 'Provides: shadow-utils, tzdata, /bin/sh, rtld(GNU_HASH)\n'
        provided_versions
        # RHEL's policy: units are disabled until an administrator enables them.
        cat <<'SPEC'
%description
x
%install
mkdir -p %{buildroot}/usr/lib/systemd/system-preset
echo 'disable *' >%{buildroot}/usr/lib/systemd/system-preset/99-default-disable.preset
%files
/usr/lib/systemd/system-preset/99-default-disable.preset
SPEC
    } >"$work/base.spec"
    build_standin base
}

# The options of RHEL's packages, and what their servers have as defaults but Debian's have not.
server_options() {
    local log=/var/log/mariadb/mariadb.log
    [ "$family" = mariadb ] || log=/var/log/mysql/mysqld.log
    cat <<OPTIONS
[mysqld]
datadir=/var/lib/mysql
socket=/var/lib/mysql/mysql.sock
log-error=$log
pid-file=/run/$family/$daemon.pid
plugin_dir=/usr/lib64/$family/plugin
skip_networking
OPTIONS
    [ "$family" = mariadb ] || echo 'mysqlx=OFF'
    [ "$release" != mysql-8.0 ] || printf '%s\n' lc_messages_dir=/usr/share/mysql-8.0 \
        character_sets_dir=/usr/share/mysql-8.0/charsets
}

# server_files DIRECTORY: what the package of the server has.
server_files() {
    local to=$1 from=$root/usr plugins=$root/usr/lib/mysql/plugin
    install -d "$to/usr/libexec" "$to/usr/lib64/$family" "$to"/usr/{bin,lib/systemd/system} \
        "$to/etc/my.cnf.d"
    if [ "$release" = mysql-8.0 ]; then
        from=$(scripts/setup-mysql.sh mysql-8.0)/usr plugins=$from/lib/mysql/plugin
        cp "$from/bin/mysqld" "$to/usr/libexec/"
        cp "$from"/bin/{mysql,mysqladmin} "$to/usr/bin/"
        cp -r "$from/lib/private" "$to/usr/lib/"
        mkdir -p "$to/usr/share"
        cp -r "$from/share" "$to/usr/share/mysql-8.0"
    else
        ln -s "../sbin/$daemon" "$to/usr/libexec/$daemon"
    fi
    if [ -d "$plugins" ]; then
        cp -r "$plugins" "$to/usr/lib64/$family/plugin"
    else
        mkdir "$to/usr/lib64/$family/plugin"
    fi
    printf '[client]\nsocket=/var/lib/mysql/mysql.sock\n!includedir /etc/my.cnf.d\n' \
        >"$to/etc/my.cnf"
    server_options >"$to/etc/my.cnf.d/$family-server.cnf"
    printf '[Unit]\nDescription=server\n[Service]\nUser=mysql\nExecStart=%s\n' \
        "/usr/libexec/$daemon" \
        >"$to/usr/lib/systemd/system/$unit.service"
}

# RHEL's MariaDB has an epoch.
server_standin() {
    local epoch='' number
    [ "$family" = mysql ] || epoch='Epoch: 3'
    server_files "$work/server"
    if [ "$release" = mysql-8.0 ]; then number=8.0.33; else number=$(
        chroot "$root" "/usr/sbin/$daemon" --version | sed -n 's/.* Ver \([0-9.]*\).*/\1/p'
    ); fi
    cat >"$work/server.spec" <<SPEC
Name: $family-server
$epoch
Version: $number
Release: 1
Summary: x
License: x
%description
x
%install
cp -a $work/server/. %{buildroot}/
%pre
getent group mysql >/dev/null || groupadd --system mysql
getent passwd mysql >/dev/null || useradd --system --gid mysql --home-dir /var/lib/mysql mysql
%files
$(cd "$work/server" && find . -type f,l -printf '"/%P"\n')
SPEC
    sed -i '/^$/d' "$work/server.spec"
    build_standin server
    rm -r "$work/server"
}
