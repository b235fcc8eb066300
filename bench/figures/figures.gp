# gnuplot -e "folder='…'" figures.gp: post.csv and throughput.csv of that folder become post.svg and throughput.svg.
set terminal svg size 640,400 font "sans,12"
set datafile separator ","
set key center right
set grid
set logscale x 2
set format x "%.0s%cB"
set xlabel "payload"

rows(file, how) = sprintf("< grep '^%s,' '%s/%s'", how, folder, file)

set output folder."/post.svg"
set ylabel "time of a post, ns"
set yrange [0:*]
plot rows("post.csv", "gpu") using 2:3 with linespoints title "GPU", \
     rows("post.csv", "cpu") using 2:3 with linespoints title "our code on the CPU", \
     rows("post.csv", "ibv") using 2:3 with linespoints title "ibv\\_post\\_send"

set output folder."/throughput.svg"
set key top left
set ylabel "throughput, Gbit/s"
plot rows("throughput.csv", "gpu") using 2:3 with linespoints title "GPU", \
     rows("throughput.csv", "cpu") using 2:3 with linespoints title "our code on the CPU", \
     rows("throughput.csv", "ibv") using 2:3 with linespoints title "ibv\\_post\\_send"
